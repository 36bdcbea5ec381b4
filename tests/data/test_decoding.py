import base64
import struct
import zlib
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageCms

from nngcd.data.decoding import Decoding, UnreadableError, decode_rgb, probe, to_rgb

ORIENTATION = 0x0112


def encode(image, format="PNG", **options):
    buffer = BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def noise(size=(48, 32)):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def red_left_blue_right():
    image = Image.new("RGB", (32, 16), "red")
    image.paste("blue", (16, 0, 32, 16))
    return image


HEIC = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAVZtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAAAA"
    "AERAAAEAAQAAAAABegABAAAAAAAAACkAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA1mlwcnAAAAC3"
    "aXBjbwAAAHhodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQArQgEBA3AAAAMAkAAAAwAA"
    "AwAeoCCBBZbqSSmubgIaDAgAAAMAyAAAAwAIQGIAAQAHRAHBcrAiQAAAABNjb2xybmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAABBw"
    "aXhpAAAAAAMICAgAAAAXaXBtYQAAAAAAAAABAAEEgQIDBAAAADFtZGF0AAAAJSgBr1j5DpJf//Od3/+VHpD7EWYn/8/iYv6idp/4v/RHEv/v4Rg="
)
"""Red on the left and blue on the right, 64 x 64 pixels, as pillow-heif writes it; pi-heif only reads."""


def left_and_right(image):
    return [image.getpixel((place, image.height // 2)) for place in (image.width // 8, image.width * 7 // 8)]


def test_a_photograph_of_an_iphone_is_read():
    image, facts = decode_rgb(HEIC), probe(HEIC)
    (red, _, _), (_, _, blue) = left_and_right(image)
    assert image.size == (64, 64) and red > 200 and blue > 200
    assert (facts.format, facts.width, facts.height, facts.has_frames) == ("HEIF", 64, 64, False)


@pytest.mark.parametrize("format", ["AVIF", "WEBP"])
def test_avif_and_webp_are_read(format):
    data = encode(red_left_blue_right(), format, quality=90)
    (red, _, _), (_, _, blue) = left_and_right(decode_rgb(data))
    assert red > 200 and blue > 200 and probe(data).format == format


@pytest.mark.parametrize("data", [HEIC[:200], HEIC[:-8], encode(red_left_blue_right(), "AVIF")[:-40]])
def test_half_a_heic_or_avif_file_is_a_reason(data):
    for read in (decode_rgb, probe):
        with pytest.raises(UnreadableError, match=r"truncated|broken"):
            read(data)


@pytest.mark.parametrize(
    ("size", "short_side", "expected"),
    [((800, 640), 80, (200, 160)), ((800, 640), 79, (200, 160)), ((800, 640), 81, (400, 320)),
     ((640, 800), 40, (80, 100)), ((800, 640), 161, (800, 640)), ((800, 640), None, (800, 640)),
     ((800, 640), 10, (100, 80))],
)  # fmt: skip
def test_a_large_jpeg_is_decoded_smaller_at_no_less_than_twice_what_is_needed(size, short_side, expected):
    assert decode_rgb(encode(noise(size), "JPEG"), short_side=short_side).size == expected
    assert decode_rgb(encode(noise(size), "PNG"), short_side=short_side).size == size


def test_a_reduced_jpeg_shows_the_same_picture_upright():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    large = red_left_blue_right().resize((1600, 800))
    data = encode(large, "JPEG", exif=exif, quality=95)
    small, whole = decode_rgb(data, short_side=100), decode_rgb(data)
    assert (small.size, whole.size) == ((200, 400), (800, 1600))
    difference = np.asarray(small, dtype=int) - np.asarray(whole.resize(small.size, Image.Resampling.BOX))
    assert np.abs(difference).mean() < 2


def test_rgb_pixels_stay_as_they_are():
    assert (np.asarray(decode_rgb(encode(noise()))) == np.asarray(noise())).all()


@pytest.mark.parametrize(
    ("orientation", "size", "place_of_red"),
    [(1, (32, 16), (4, 8)), (3, (32, 16), (28, 8)), (6, (16, 32), (8, 4)), (8, (16, 32), (8, 28))],
)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF"])
def test_exif_rotation_is_applied(format, orientation, size, place_of_red):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    image = decode_rgb(encode(red_left_blue_right(), format, exif=exif))
    assert image.size == size
    red, _, blue = image.getpixel(place_of_red)
    assert red > 200 and blue < 60


def test_broken_exif_does_not_cost_the_image():
    data = encode(noise(), "PNG", exif=b"Exif\0\0this is not EXIF")
    assert decode_rgb(data).size == (48, 32)


def test_greyscale_gets_three_equal_channels():
    assert decode_rgb(encode(Image.new("L", (4, 4), 77))).getpixel((0, 0)) == (77, 77, 77)
    assert decode_rgb(encode(Image.new("1", (4, 4), 1))).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 255), (255, 0, 0)),
        ("RGBA", (0, 0, 0, 51), (204, 204, 204)),
        ("LA", (0, 0), (255, 255, 255)),
        ("LA", (0, 51), (204, 204, 204)),
    ],
)
def test_transparent_parts_show_white(mode, colour, expected):
    assert decode_rgb(encode(Image.new(mode, (4, 4), colour))).getpixel((1, 1)) == expected


@pytest.mark.parametrize("format", ["PNG", "GIF"])
def test_a_transparent_palette_entry_shows_white(format):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([200, 0, 0, 0, 100, 0])
    image.putpixel((3, 3), 1)
    assert decode_rgb(encode(image, format)).getpixel((0, 0)) == (200, 0, 0)
    image = decode_rgb(encode(image, format, transparency=0))
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.getpixel((3, 3)) == (0, 100, 0)


def test_a_transparent_colour_of_a_greyscale_png_shows_white():
    image = Image.new("L", (4, 4), 9)
    image.putpixel((0, 0), 50)
    image = decode_rgb(encode(image, transparency=9))
    assert (image.getpixel((0, 0)), image.getpixel((1, 1))) == ((50, 50, 50), (255, 255, 255))


def profile_that_prints_cyan_as_red():
    """A CMYK profile with a table of 2 x 2 x 2 x 2 colours: black where there is black ink, red where there is cyan."""
    red, white, black = bytes([138, 209, 198]), bytes([255, 128, 128]), bytes([0, 128, 128])
    colours = (white + black) * 4 + (red + black) * 4
    identity = bytes(range(256))
    matrix = struct.pack(">9i", *(65536 * (row == column) for row in range(3) for column in range(3)))
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + matrix + identity * 4 + colours + identity * 3
    xyz = struct.pack(">3i", 63190, 65536, 54061)
    tags = {b"A2B0": table, b"wtpt": b"XYZ " + bytes(4) + xyz, b"cprt": b"text" + bytes(4) + b"none\0"}
    entries, body, offset = b"", b"", 132 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        entries += name + struct.pack(">II", offset + len(body), len(data))
        body += data
    header = bytes(4) + bytes(4) + b"\x02\x40\0\0prtrCMYKLab " + struct.pack(">6H", 2000, 1, 1, 0, 0, 0) + b"acsp"
    header = (header + bytes(28) + xyz).ljust(128, b"\0")
    size = struct.pack(">I", offset + len(body))
    return size + header[4:] + struct.pack(">I", len(tags)) + entries + body


def test_cmyk_goes_through_its_profile():
    cyan = Image.new("CMYK", (8, 8), (255, 0, 0, 0))
    red, green, blue = decode_rgb(encode(cyan, "TIFF", icc_profile=profile_that_prints_cyan_as_red())).getpixel((4, 4))
    assert red > 240 and green < 20 and blue < 20


@pytest.mark.parametrize(
    "profile", [None, b"broken", ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()]
)
def test_cmyk_without_a_usable_profile_is_converted_directly(profile):
    cyan = Image.new("CMYK", (8, 8), (255, 0, 0, 0))
    options = {} if profile is None else {"icc_profile": profile}
    assert decode_rgb(encode(cyan, "TIFF", **options)).getpixel((4, 4)) == (0, 255, 255)
    red, green, blue = decode_rgb(encode(cyan, "JPEG", quality=95)).getpixel((4, 4))
    assert red < 8 and green > 247 and blue > 247


def test_lab_becomes_colour():
    red, green, blue = to_rgb(Image.new("LAB", (4, 4), (138, 209, 198))).getpixel((0, 0))
    assert red > 230 and green < 60 and blue < 60


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", "<f4"])
def test_deep_greyscale_is_rescaled_not_clipped(dtype):
    values = np.array([[1000, 1000 + 51 * 4], [1000 + 102 * 4, 1000 + 255 * 4]])
    image = decode_rgb(tiff(values, dtype))
    assert np.asarray(image)[..., 0].tolist() == [[0, 51], [102, 255]]
    assert np.asarray(image).shape == (2, 2, 3)


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", "<f4"])
def test_a_constant_deep_image_is_black(dtype):
    with np.errstate(all="raise"):
        assert np.asarray(decode_rgb(tiff(np.full((2, 2), 4000), dtype))).max() == 0


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B"])
def test_every_16_bit_mode_is_understood(mode):
    order = ">u2" if mode == "I;16B" else "<u2"
    image = Image.frombytes(mode, (3, 1), np.array([100, 300, 500], dtype=order).tobytes())
    assert np.asarray(to_rgb(image))[0, :, 0].tolist() == [0, 128, 255]


def test_holes_in_a_float_image_do_not_spread():
    values = np.array([[np.nan, 0.0], [1.0, np.inf]])
    assert np.asarray(decode_rgb(tiff(values, "<f4")))[..., 0].tolist() == [[0, 0], [255, 255]]
    assert np.asarray(decode_rgb(tiff(np.full((2, 2), np.nan), "<f4"))).max() == 0


def tiff(values, dtype):
    """A greyscale TIFF of any depth and byte order, written by hand because Pillow writes only some of them."""
    pixels = np.asarray(values).astype(dtype)
    order = dtype[0]
    sample_format = {"u": 1, "i": 2, "f": 3}[dtype[1]]
    height, width = pixels.shape
    tags = [(256, width), (257, height), (258, pixels.itemsize * 8), (259, 1), (262, 1), (273, 8), (277, 1)]
    tags += [(278, height), (279, pixels.nbytes), (339, sample_format)]
    start = b"II*\0" if order == "<" else b"MM\0*"
    # A LONG (type 4) is allowed for every one of these fields.
    entries = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in tags)
    directory = struct.pack(f"{order}H", len(tags)) + entries + bytes(4)
    return start + struct.pack(f"{order}I", 8 + pixels.nbytes) + pixels.tobytes() + directory


def test_16_bit_png_is_rescaled():
    image = Image.fromarray(np.array([[0, 30000], [45000, 60000]], dtype=np.uint16))
    assert np.asarray(decode_rgb(encode(image)))[..., 0].tolist() == [[0, 128], [191, 255]]


@pytest.mark.parametrize("format", ["GIF", "TIFF", "WEBP"])
def test_the_first_of_several_frames_is_used(format):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    image = decode_rgb(encode(frames[0], format, save_all=True, append_images=frames[1:]))
    red, green, blue = image.getpixel((4, 4))
    assert red > 240 and green < 20 and blue < 20


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "PPM"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.6, 0.9])
def test_truncated_files_are_found(format, share):
    data = encode(noise(), format)
    assert decode_rgb(data).size == (48, 32)
    with pytest.raises(UnreadableError, match=r"^truncated$"):
        decode_rgb(data[: int(share * len(data))])


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_truncated_compressed_tiff_is_found():
    data = encode(noise(), "TIFF", compression="tiff_lzw")
    assert decode_rgb(data).size == (48, 32)
    with pytest.raises(UnreadableError):
        decode_rgb(data[: len(data) // 2])


def huge_png():
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes"),
        (b"\n <!DOCTYPE html><title>404</title>", r"not an image \(HTML page\)"),
        (b"\xef\xbb\xbf<html>", r"not an image \(HTML page\)"),
        (b"just some text", "unknown format"),
        # EPS is a format Pillow hands to another program; it must not be opened at all.
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n", "unknown format"),
        (huge_png(), r"over the pixel limit \(1,600,000,000 pixels\)"),
    ],
)
def test_reasons_are_plain(data, reason):
    with pytest.raises(UnreadableError, match=f"^{reason}$"):
        decode_rgb(data)


def test_broken_data_inside_a_complete_file_is_refused():
    data = bytearray(encode(noise()))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(UnreadableError):
        decode_rgb(bytes(data))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "PPM"])
def test_probing_tells_what_decoding_would_give(format):
    facts = probe(encode(noise((160, 90)), format))
    mode = "P" if format == "GIF" else "RGB"
    assert (facts.format, facts.width, facts.height, facts.mode) == (format, 160, 90, mode)
    assert not (facts.is_rotated or facts.has_frames or facts.is_blank)


def test_probing_sees_rotation_frames_and_blank_images():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    assert probe(encode(noise(), "JPEG", exif=exif)).is_rotated
    assert probe(encode(noise(), "GIF", save_all=True, append_images=[red_left_blue_right()])).has_frames
    assert probe(encode(Image.new("RGB", (64, 64), "red"), "JPEG")).is_blank
    # At an eighth of its size, fine stripes are one grey.
    stripes = Image.fromarray(np.tile(np.array([0, 255], dtype=np.uint8), (64, 32)))
    assert not probe(encode(stripes, "JPEG", quality=95)).is_blank


def test_the_pixel_limit_can_be_moved_for_trusted_files(monkeypatch):
    data = encode(noise())
    with pytest.raises(UnreadableError, match=r"over the pixel limit \(1,536 pixels\)"):
        probe(data, Decoding(max_pixels=1535))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(UnreadableError, match="over the pixel limit"):
        decode_rgb(data)
    assert decode_rgb(data, Decoding(max_pixels=1536)).size == (48, 32)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_the_largest_floats_are_rescaled_without_overflow():
    values = np.array([[-3e38, 0.0], [0.0, 3e38]])
    assert np.asarray(decode_rgb(tiff(values, "<f4")))[..., 0].tolist() == [[0, 128], [128, 255]]


@pytest.mark.slow
def test_a_folder_of_heic_avif_and_webp_photographs_fits(nngcd, tmp_path):
    root, run = tmp_path / "photos", tmp_path / "run"
    for folder in ("bright", "dark", "_unlabelled"):
        (root / folder).mkdir(parents=True)
    for i in range(4):
        for folder, image in (
            ("bright", Image.eval(noise(), lambda v: 155 + v // 3)),
            ("dark", noise().rotate(90 * i)),
        ):
            place = root / (folder if i < 2 else "_unlabelled")
            image.putpixel((i, 0), (i, i, i))
            (place / f"{folder}{i}.webp").write_bytes(encode(image, "WEBP"))
            (place / f"{folder}{i}.avif").write_bytes(encode(image, "AVIF"))
        free_box = struct.pack(">I4sI", 12, b"free", i)  # means nothing, and makes another file
        (root / "_unlabelled" / f"iphone{i}.HEIC").write_bytes(HEIC + free_box)
    flags = ("--method", "kmeans", "--k", 3, "--image-size", 32, "--workers", 0, "--no-report", "--quiet")
    code, _, err = nngcd("fit", root, "--out", run, *flags)
    assert code == 0, err
    results = pd.read_csv(run / "results.csv")
    assert len(results) == 20 and results["file_name"].str.endswith(".HEIC").sum() == 4
