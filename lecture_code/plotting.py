"""Drawing in the book's one style. Every function takes `ax`, returns `ax` and computes nothing.

A series is "standard" (colour 0), "flash" (colour 1) or a number; each has a colour, a marker and a
line style, so that no figure is told by colour alone. Bounds are dashed and grey. Sizes, fonts and
colours come from `lecture.mplstyle`, loaded by `use_style`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

#: Okabe and Ito's colours, in the order of `lecture.mplstyle`.
PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STANDARD, FLASH = PALETTE[0], PALETTE[1]
BOUND = "#6B6B6B"
FAINT = "#EDEDED"

_MARKERS = ("s", "o", "^", "D", "v", "P", "X")
_LINES = ("-", "-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
_OFFSETS = {
    "right": (7, 0, "left", "center"),
    "left": (-7, 0, "right", "center"),
    "above": (0, 7, "center", "bottom"),
    "below": (0, -7, "center", "top"),
    "above right": (5, 5, "left", "bottom"),
    "below right": (5, -5, "left", "top"),
    "above left": (-5, 5, "right", "bottom"),
    "below left": (-5, -5, "right", "top"),
}


def use_style() -> None:
    """Load the book's style for every figure that follows.

    >>> use_style()
    >>> plt.rcParams["figure.facecolor"]
    'white'
    """
    with resources.as_file(resources.files("lecture_code") / "lecture.mplstyle") as path:
        plt.style.use(path)


def new_axes(
    rows: int = 1, columns: int = 1, *, height: float | None = None, **subplots
) -> tuple[Figure, Axes]:
    """Return a figure as wide as the page's column, and its axes.

    Parameters
    ----------
    rows, columns
        Grid of axes; more than one gives an array of them.
    height
        Height in inches (the style's own if left out).
    **subplots
        Passed to `plt.subplots`, such as ``sharex=True``.
    """
    use_style()
    width, default_height = plt.rcParams["figure.figsize"]
    return plt.subplots(
        rows, columns, figsize=(width, default_height if height is None else height), **subplots
    )


def series_style(series: int | str) -> dict:
    """Return colour, marker and line style of a series: "standard", "flash", or a number from 0.

    Raises
    ------
    ValueError
        If the name is neither, or the number has no style of its own.

    >>> series_style("flash")["color"] == PALETTE[1]
    True
    """
    index = {"standard": 0, "flash": 1}.get(series, series)
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(PALETTE):
        raise ValueError(
            f'series: expected "standard", "flash" or 0 to {len(PALETTE) - 1}, got {series!r}'
        )
    return {"color": PALETTE[index], "marker": _MARKERS[index], "linestyle": _LINES[index]}


def curve(ax: Axes, x, y, *, series: int | str, label: str | None = None, markers=True) -> Axes:
    """Draw one line. `label` is written at its right end, not in a legend."""
    style = series_style(series)
    if not markers:
        style["marker"] = ""
    ax.plot(x, y, **style)
    if label:
        direct_label(ax, x[-1], y[-1], label, series=series)
    return ax


def spread(ax: Axes, x, p20, p50, p80, *, series: int | str, label: str | None = None) -> Axes:
    """Draw a measured line: its median, and the band from p20 to p80."""
    style = series_style(series)
    ax.fill_between(x, p20, p80, color=style["color"], alpha=0.25, linewidth=0)
    return curve(ax, x, p50, series=series, label=label)


def points(
    ax: Axes,
    x,
    y,
    *,
    series: int | str,
    labels: Sequence[str] | None = None,
    where: str | Sequence[str] = "right",
) -> Axes:
    """Draw unconnected points, each with its label beside it (`where`: one place, or one each)."""
    style = series_style(series)
    ax.plot(x, y, color=style["color"], marker=style["marker"], linestyle="none", zorder=3)
    for i, text in enumerate(labels or ()):
        place = where if isinstance(where, str) else where[i]
        direct_label(ax, x[i], y[i], text, series=series, where=place)
    return ax


def bound(ax: Axes, x, y, *, label: str | None = None, where: str = "above left") -> Axes:
    """Draw a bound or a model: dashed and grey, named near its last point."""
    ax.plot(x, y, color=BOUND, linestyle=(0, (6, 3)), linewidth=1.5, marker="", zorder=1.5)
    if label:
        direct_label(ax, x[-1], y[-1], label, where=where)
    return ax


def vertical_bound(ax: Axes, x: float, *, label: str | None = None) -> Axes:
    """Draw a dashed grey vertical line, named at its foot."""
    ax.axvline(x, color=BOUND, linestyle=(0, (6, 3)), linewidth=1.5, zorder=1.5)
    if label:
        ax.annotate(
            label,
            (x, 0),
            xycoords=("data", "axes fraction"),
            xytext=(5, 4),
            textcoords="offset points",
            ha="left",
            va="bottom",
            color=BOUND,
            fontsize=plt.rcParams["xtick.labelsize"],
        )
    return ax


def direct_label(
    ax: Axes,
    x: float,
    y: float,
    text: str,
    *,
    series: int | str | None = None,
    where: str = "right",
) -> Axes:
    """Write `text` beside a point, in its series' colour (grey without one).

    Parameters
    ----------
    where
        "right", "left", "above", "below", or "above right" and so on.

    Raises
    ------
    ValueError
        If `where` or `series` names nothing.
    """
    if where not in _OFFSETS:
        raise ValueError(f"where: expected one of {', '.join(_OFFSETS)}; got {where!r}")
    dx, dy, ha, va = _OFFSETS[where]
    ax.annotate(
        text,
        (x, y),
        xytext=(dx, dy),
        textcoords="offset points",
        ha=ha,
        va=va,
        color=BOUND if series is None else series_style(series)["color"],
        fontsize=plt.rcParams["xtick.labelsize"],
        annotation_clip=False,
    )
    return ax


def label_axes(ax: Axes, x: str, y: str) -> Axes:
    """Name both axes, as ``quantity [unit]``."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return ax


def log_axes(ax: Axes, *, x: int | None = 10, y: int | None = 10) -> Axes:
    """Make axes logarithmic, each to its base; None leaves that axis linear."""
    if x is not None:
        ax.set_xscale("log", base=x)
        ax.xaxis.set_minor_locator(NullLocator())
    if y is not None:
        ax.set_yscale("log", base=y)
        ax.yaxis.set_minor_locator(NullLocator())
    return ax


def plain_ticks(ax: Axes, *, x: Sequence[float] | None = None, y=None) -> Axes:
    """Put ticks at these places and write them as plain numbers, 65,536 and not 2¹⁶."""
    for axis, places in ((ax.xaxis, x), (ax.yaxis, y)):
        if places is not None:
            axis.set_major_locator(FixedLocator(list(places)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
            axis.set_minor_formatter(NullFormatter())
    return ax


def roofline(
    ax: Axes,
    intensities: Sequence[float],
    roof_flop_per_s: Sequence[float],
    *,
    label: str | None = None,
    series: int | str | None = None,
) -> Axes:
    """Draw one device's roof over log-log axes.

    Parameters
    ----------
    intensities
        FLOP per byte, in order; let the ridge point be one of them.
    roof_flop_per_s
        `roofline.attainable_flop_per_s` at each.
    label
        Written above the right end of the roof.
    series
        Colour and line style; a dashed grey bound if left out.
    """
    if series is None:
        bound(ax, intensities, roof_flop_per_s, label=label)
    else:
        curve(ax, intensities, roof_flop_per_s, series=series, markers=False)
        if label:
            last = (intensities[-1], roof_flop_per_s[-1])
            direct_label(ax, *last, label, series=series, where="above left")
    log_axes(ax)
    return label_axes(ax, "arithmetic intensity [FLOP/byte]", "rate [FLOP/s]")


def bars(
    ax: Axes,
    labels: Sequence[str],
    values: Sequence[float],
    *,
    series: int | str | Sequence[int | str] = 0,
    texts: Sequence[str] | None = None,
) -> Axes:
    """Draw horizontal bars, the first on top, each with its text at the end.

    Parameters
    ----------
    series
        One for all bars, or one for each.
    texts
        What to write at the bars' ends, such as the values with their units.
    """
    each = [series] * len(values) if isinstance(series, int | str) else list(series)
    rows = range(len(values))
    ax.barh(rows, values, color=[series_style(s)["color"] for s in each], height=0.7)
    ax.set_yticks(rows, labels)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    for row, text in enumerate(texts or ()):
        direct_label(ax, values[row], row, text)
    return ax


def grouped_bars(
    ax: Axes, labels: Sequence[str], groups: Mapping[str, Sequence[float]], *, texts=None
) -> Axes:
    """Draw vertical bars side by side: for each label, one bar of each group, with a legend.

    Parameters
    ----------
    groups
        Name to values; names "standard" and "flash" take their own series, others their order.
    texts
        Name to what is written over its bars.
    """
    width = 0.8 / len(groups)
    for i, (name, values) in enumerate(groups.items()):
        series = name if name in ("standard", "flash") else i
        color = series_style(series)["color"]
        left = [place - 0.4 + (i + 0.5) * width for place in range(len(values))]
        ax.bar(left, values, width * 0.92, color=color, hatch=_HATCHES[i], ec="white", label=name)
        for place, value, text in zip(left, values, (texts or {}).get(name, ())):
            direct_label(ax, place, value, text, series=series, where="above")
    ax.set_xticks(range(len(labels)), labels)
    ax.grid(axis="x", visible=False)
    ax.legend()
    return ax


def mask_grid(ax: Axes, mask, *, series: int | str = "flash") -> Axes:
    """Draw a boolean grid, such as a block mask: row 0 on top, True in colour, False pale.

    Cell (i, j) is centred at y = i, x = j.
    """
    rows, columns = len(mask), len(mask[0])
    color = series_style(series)["color"]
    centres = (range(columns), range(rows), mask)
    ax.pcolormesh(*centres, cmap=ListedColormap([FAINT, color]), vmin=0, vmax=1, ec="w", lw=0.6)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    ax.invert_yaxis()
    ax.set_aspect("equal")
    ax.grid(visible=False)
    return ax
