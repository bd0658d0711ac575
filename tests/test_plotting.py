"""The figure style, and that drawing functions draw what they are given."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex, to_rgb  # noqa: E402

from lecture_code import plotting  # noqa: E402


@pytest.fixture
def ax():
    figure, axes = plotting.new_axes()
    yield axes
    plt.close(figure)


def luminance(color):
    """Relative luminance of WCAG 2.1."""
    channels = np.array(to_rgb(color))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast_on_white(color):
    return 1.05 / (luminance(color) + 0.05)


def test_the_style_is_white_opaque_and_sized_for_the_column():
    plotting.use_style()
    params = plt.rcParams
    assert params["savefig.facecolor"] == params["figure.facecolor"] == "white"
    assert params["savefig.transparent"] is False
    width_inch, _ = params["figure.figsize"]
    # on a phone the figure is 360 CSS px wide: no text below 12 px (9 pt) there
    smallest = min(params[key] for key in ("xtick.labelsize", "ytick.labelsize", "legend.fontsize"))
    assert smallest * 360 / (width_inch * 72) >= 12
    assert width_inch * params["figure.dpi"] >= 700


def test_the_cycle_is_the_palette():
    plotting.use_style()
    cycle = plt.rcParams["axes.prop_cycle"].by_key()
    assert tuple(cycle["color"]) == plotting.PALETTE
    assert plotting.STANDARD == plotting.PALETTE[0] and plotting.FLASH == plotting.PALETTE[1]
    assert [plotting.series_style(i)["linestyle"] for i in range(7)] == cycle["linestyle"]


def test_series_differ_without_colour_and_the_first_two_can_be_read():
    styles = [plotting.series_style(i) for i in range(len(plotting.PALETTE))]
    assert len({style["marker"] for style in styles}) == len(styles)
    assert plotting.series_style("standard") == styles[0]
    assert plotting.series_style("flash") == styles[1]
    for color in (*plotting.PALETTE[:2], plotting.BOUND):
        assert contrast_on_white(color) >= 3.5
    # the two stay apart in grey
    assert abs(luminance(plotting.STANDARD) - luminance(plotting.FLASH)) > 0.05


@pytest.mark.parametrize("series", ["Flash", -1, 7, None, True, 1.0])
def test_an_unknown_series_is_refused(series):
    with pytest.raises(ValueError, match='series: expected "standard", "flash" or 0 to 6'):
        plotting.series_style(series)


def test_an_unknown_place_is_refused(ax):
    with pytest.raises(ValueError, match="where: expected one of right, left"):
        plotting.direct_label(ax, 1, 1, "text", where="beside")


def test_a_curve_holds_its_data_and_its_label(ax):
    x, y = [1, 2, 4], [3.0, 5.0, 9.0]
    assert plotting.curve(ax, x, y, series="standard", label="standard") is ax
    assert plotting.bound(ax, x, [1, 1, 1], label="bound") is ax
    line, dashed = ax.lines
    assert line.get_xydata().tolist() == [[1, 3], [2, 5], [4, 9]]
    assert line.get_color() == plotting.STANDARD and dashed.get_color() == plotting.BOUND
    assert dashed.is_dashed() and not line.is_dashed()
    assert [text.get_text() for text in ax.texts] == ["standard", "bound"]
    assert ax.texts[0].xy == (4, 9.0)


def test_a_spread_shows_median_and_band(ax):
    plotting.spread(ax, [1, 2], [0.9, 1.9], [1.0, 2.0], [1.3, 2.5], series="flash")
    assert ax.lines[0].get_ydata().tolist() == [1.0, 2.0]
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.9 and band[:, 1].max() == 2.5


def test_points_are_not_joined(ax):
    plotting.points(ax, [1, 2], [3, 4], series=2, labels=["a", "b"], where=["left", "above"])
    assert ax.lines[0].get_linestyle() == "None"
    assert [text.get_ha() for text in ax.texts] == ["right", "center"]


def test_a_roof_is_log_log_and_named(ax):
    x, y = [0.1, 100, 1e4], [1e11, 1e14, 1e14]
    assert plotting.roofline(ax, x, y, label="device") is ax
    plotting.roofline(ax, x, y, series=1, label="other")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert all(
        line.get_xydata().tolist() == [[0.1, 1e11], [100, 1e14], [1e4, 1e14]] for line in ax.lines
    )
    assert ax.get_xlabel() == "arithmetic intensity [FLOP/byte]"
    assert [text.get_text() for text in ax.texts] == ["device", "other"]


def test_bars(ax):
    plotting.bars(ax, ["a", "b"], [1, 2], series=["standard", "flash"], texts=["1 ms", "2 ms"])
    assert [bar.get_width() for bar in ax.patches] == [1, 2]
    assert [to_hex(bar.get_facecolor()).upper() for bar in ax.patches] == [
        plotting.STANDARD,
        plotting.FLASH,
    ]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted()


def test_grouped_bars(ax):
    groups = {"standard": [1, 2], "flash": [3, 4], "third": [5, 6]}
    plotting.grouped_bars(ax, ["x", "y"], groups, texts={"flash": ["3", "4"]})
    assert [bar.get_height() for bar in ax.patches] == [1, 2, 3, 4, 5, 6]
    assert to_hex(ax.patches[2].get_facecolor()).upper() == plotting.FLASH
    assert [text.get_text() for text in ax.texts] == ["3", "4"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(groups)


def test_mask_grid_keeps_row_zero_on_top(ax):
    mask = np.tri(3, 4, dtype=bool)
    plotting.mask_grid(ax, mask)
    assert ax.collections[0].get_array().reshape(3, 4).astype(bool).tolist() == mask.tolist()
    assert ax.yaxis_inverted()


def test_ticks_are_plain_numbers(ax):
    plotting.curve(ax, [128, 65536], [1, 2], series=0)
    plotting.log_axes(ax, x=2, y=None)
    plotting.plain_ticks(ax, x=[128, 65536, 1_000_000])
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["128", "65,536", "1,000,000"]
    assert ax.get_yscale() == "linear"


def test_labels_and_vertical_bound(ax):
    plotting.label_axes(ax, "N [tokens]", "traffic [elements]")
    plotting.vertical_bound(ax, 3, label="ridge")
    assert ax.get_xlabel() == "N [tokens]" and ax.get_ylabel() == "traffic [elements]"
    assert ax.lines[0].is_dashed() and ax.texts[0].get_text() == "ridge"
