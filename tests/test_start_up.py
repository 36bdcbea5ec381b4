"""What is imported before a command says anything: counted, because seconds depend on how busy the machine is."""

import subprocess
import sys

HEAVY = {
    "torch",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "scipy",
    "sklearn",
    "timm",
    "torchvision",
    "openvino",
    "PIL",
}


def test_help_waits_for_no_heavy_package():
    code = "import sys, nngcd.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_fit_says_something_before_it_loads_torch():
    code = "import sys, nngcd.cli; sys.modules['torch'] = None; sys.argv = ['nngcd', 'fit', 'digits']; nngcd.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == "Loading…\n", done.stderr
