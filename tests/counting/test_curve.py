from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from nngcd.counting.curve import Axis, k_curve
from nngcd.counting.estimate_k import KEstimate

SVG = "{http://www.w3.org/2000/svg}"


def estimate(curve):
    return KEstimate(5, 4, 6, tuple(curve), "pairs", "fair", "a < b & c", is_at_edge=False)


def test_the_curve_is_well_formed_and_says_the_number():
    root = ET.fromstring(k_curve(estimate([(k, 1 / (1 + abs(k - 5))) for k in range(2, 10)])))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[0] == "5 categories (4 to 6), confidence fair"
    assert "method pairs: a < b & c" in texts
    assert len(list(root.iter(f"{SVG}circle"))) == 8


def test_a_long_reason_is_broken_into_lines():
    long = replace(estimate([(k, float(k)) for k in range(2, 9)]), reason="word " * 35)
    texts = [element.text for element in ET.fromstring(k_curve(long)).iter(f"{SVG}text")]
    assert sum(text.count("word") for text in texts) == 35
    assert max(map(len, texts)) <= 105


def test_the_interval_lies_where_its_numbers_are():
    root = ET.fromstring(k_curve(estimate([(k, float(k)) for k in range(2, 9)])))
    points = next(root.iter(f"{SVG}polyline")).get("points").split()
    x_of = {k: float(point.split(",")[0]) for k, point in zip(range(2, 9), points, strict=True)}
    band = list(root.iter(f"{SVG}rect"))[1]
    assert float(band.get("x")) == pytest.approx(x_of[4], abs=2)
    assert float(band.get("x")) + float(band.get("width")) == pytest.approx(x_of[6], abs=2)


@pytest.mark.parametrize("curve", [[(5, 1.0)], [(4, 0.0), (5, 0.0)], [(k, -0.1 * k) for k in range(2, 500)]])
def test_odd_curves_are_drawn_too(curve):
    ET.fromstring(k_curve(estimate(curve)))


def test_ticks_are_round_numbers():
    assert Axis(2, 9, 0, 1).ticks(whole=True) == [2, 4, 6, 8]
    assert Axis(100, 400, 0, 1).ticks(whole=True) == [100, 150, 200, 250, 300, 350, 400]
