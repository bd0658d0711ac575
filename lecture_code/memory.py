"""The counted machine: a large memory whose traffic is counted, and a small one that can be full.

A program places its inputs in :class:`HBM`. It reaches their numbers only by loading rows into a
:class:`SRAM` and storing rows back, and every element that crosses is counted. The SRAM knows how
many elements it holds, remembers the peak, and refuses to hold more than its capacity.

>>> import numpy as np
>>> hbm, chip = HBM(), SRAM(capacity=8)
>>> x = hbm.array("x", np.arange(6.0))
>>> tile = chip.load(x, 0, 3)
>>> chip.store(x, 2 * tile)
>>> chip.free(tile)
>>> hbm.traffic.loads, hbm.traffic.stores, chip.peak
(3, 3, 3)
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .blocks import positive_int


class SRAMOverflow(MemoryError):
    """A program asked the chip to hold more elements than its capacity."""


@dataclass(frozen=True)
class Traffic:
    """Elements moved between HBM and the chip."""

    loads: int
    stores: int

    @property
    def total(self) -> int:
        return self.loads + self.stores


class Event(NamedTuple):
    """One transfer: rows ``start`` to ``stop`` of ``array``, ``elems`` elements."""

    op: str
    array: str
    start: int
    stop: int
    elems: int

    @property
    def source(self) -> str:
        return "HBM" if self.op == "load" else "SRAM"

    @property
    def target(self) -> str:
        return "SRAM" if self.op == "load" else "HBM"


class EventLog(Sequence):
    """Every transfer in order, packed into four 8-byte integers each.

    The log of a blocked program has a record for each transfer of a tile, so it grows with the
    number of tiles. Turn it off (``HBM(log=False)``) when only the totals matter.
    """

    def __init__(self):
        self._names: list[str] = []
        self._packed = packed("q")

    def _register(self, name: str) -> int:
        self._names.append(name)
        return 2 * (len(self._names) - 1)

    def _append(self, code: int, start: int, stop: int, elems: int) -> None:
        self._packed.extend((code, start, stop, elems))

    def __len__(self) -> int:
        return len(self._packed) // 4

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = 4 * range(len(self))[index]
        code, start, stop, elems = self._packed[at : at + 4]
        return Event("store" if code % 2 else "load", self._names[code // 2], start, stop, elems)

    def __repr__(self) -> str:
        return f"EventLog of {len(self)} transfers"


class HBM:
    """The large memory: named arrays, and a count of every element loaded or stored.

    Parameters
    ----------
    log : bool
        Keep an event for each transfer (``.events``). Counts are kept either way.
    """

    def __init__(self, *, log: bool = True):
        self.events: EventLog | None = EventLog() if log else None
        self._loads = self._stores = 0

    def array(self, name: str, values) -> HBMArray:
        """Place a copy of ``values`` (1-D or 2-D) in HBM. Placing an input is not counted."""
        values = np.array(values)
        if values.dtype.kind not in "fiub":
            raise TypeError(f"values of {name} must be real numbers, got dtype {values.dtype}")
        if values.ndim not in (1, 2):
            raise ValueError(f"values of {name} must be 1-D or 2-D, got shape {values.shape}")
        return HBMArray(self, name, values)

    def empty(self, name: str, shape, dtype=np.float64) -> HBMArray:
        """Reserve space for a result. It holds NaN, so that a row never stored shows."""
        return self.array(name, np.full(shape, np.nan, dtype))

    @property
    def loads(self) -> int:
        return self._loads

    @property
    def stores(self) -> int:
        return self._stores

    @property
    def traffic(self) -> Traffic:
        """Elements moved so far."""
        return Traffic(self._loads, self._stores)


class HBMArray:
    """An array that lives in HBM: it has a name, a shape and a dtype, and no readable numbers.

    Load rows with :meth:`SRAM.load` and write rows with :meth:`SRAM.store`.
    ``hbm_array.copy_out()`` is for the person outside the machine who looks at the result; it is
    not counted.
    """

    __slots__ = ("__values", "_code", "_hbm", "name")

    def __init__(self, hbm: HBM, name: str, values: np.ndarray):
        self.__values, self._hbm, self.name = values, hbm, name
        self._code = hbm.events._register(name) if hbm.events is not None else 0

    def _numbers(self) -> np.ndarray:
        return self.__values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.__values.shape

    @property
    def dtype(self) -> np.dtype:
        return self.__values.dtype

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return f"HBMArray({self.name!r}, shape={self.shape}, dtype={self.dtype})"

    def _refuse(self, *_, **__):
        raise TypeError(
            f"{self.name} lives in HBM: load rows into the chip with "
            f"sram.load({self.name}, start, stop) and write them with sram.store"
        )

    __array__ = __getitem__ = __setitem__ = __iter__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = (
        _refuse
    )
    __truediv__ = __rtruediv__ = _refuse
    __eq__ = __ne__ = __bool__ = _refuse
    __hash__ = object.__hash__
    __array_ufunc__ = None

    def copy_out(self) -> np.ndarray:
        """A copy of the whole array, for whoever inspects the result after the program has run."""
        return self.__values.copy()

    def _rows(self, start: int, stop: int) -> tuple[int, int]:
        start, stop = positive_int("start", start, 0), positive_int("stop", stop, 0)
        if not start <= stop <= len(self):
            raise ValueError(
                f"rows {start}:{stop} do not lie in {self.name}, which has {len(self)} rows"
            )
        return start, stop

    def _span(self, start, stop, columns) -> tuple[slice, ...]:
        """The slices of a tile, checked."""
        rows = slice(*self._rows(start, len(self) if stop is None else stop))
        if columns is None:
            return (rows,)
        if len(self.shape) != 2:
            raise ValueError(f"{self.name} has one dimension, columns {columns} do not exist")
        c0, c1 = (positive_int("columns", c, 0) for c in columns)
        if not c0 <= c1 <= self.shape[1]:
            raise ValueError(f"columns {c0}:{c1} do not lie in {self.name}, shape {self.shape}")
        return rows, slice(c0, c1)

    def _elems(self, span: tuple[slice, ...]) -> int:
        widths = [s.stop - s.start for s in span] + list(self.shape[len(span) :])
        return widths[0] * (widths[1] if len(widths) == 2 else 1)

    def _load(self, span: tuple[slice, ...]) -> np.ndarray:
        tile = self._numbers()[span].copy()
        start, stop = span[0].start, span[0].stop
        self._hbm._loads += tile.size
        if self._hbm.events is not None:
            self._hbm.events._append(self._code, start, stop, tile.size)
        return tile

    def _store(self, values, start: int, columns=None) -> None:
        values = np.asarray(values)
        if values.ndim != len(self.shape):
            raise ValueError(
                f"values for {self.name} must have {len(self.shape)} dimensions, "
                f"got shape {values.shape}"
            )
        span = self._span(start, start + len(values), columns)
        start, stop = span[0].start, span[0].stop
        target = self._numbers()[span]
        if values.shape != target.shape:
            raise ValueError(
                f"rows {start}:{stop} of {self.name} have shape {target.shape}, got {values.shape}"
            )
        if not np.can_cast(values.dtype, target.dtype, "same_kind"):
            raise TypeError(f"{self.name} holds {target.dtype}, got values of {values.dtype}")
        with np.errstate(over="ignore"):  # a cast to 16 bits saturates to inf, as on hardware
            target[...] = values
        self._hbm._stores += values.size
        if self._hbm.events is not None:
            self._hbm.events._append(self._code + 1, start, stop, values.size)


class SRAM:
    """The small memory beside the arithmetic: holds tiles, and at most ``capacity`` elements of
    them.

    Parameters
    ----------
    capacity : int or None
        Elements it can hold. None: as many as asked for; the peak is known all the same.
    accumulate : dtype or None
        In what precision :meth:`matmul` adds up its products. None: float32 for float16 operands
        (what tensor cores do), the operands' own precision otherwise.
    """

    def __init__(self, capacity: int | None = None, *, accumulate=None):
        self._capacity = None if capacity is None else positive_int("capacity", capacity)
        self._accumulate = None if accumulate is None else _float_dtype(accumulate)
        self._held: dict[int, np.ndarray] = {}
        self._used = self._peak = self._matmul_flop = 0

    @property
    def capacity(self) -> int | None:
        return self._capacity

    @property
    def used(self) -> int:
        """Elements held now."""
        return self._used

    @property
    def peak(self) -> int:
        """The most elements ever held at once."""
        return self._peak

    @property
    def matmul_flop(self) -> int:
        """FLOP of the products made so far; a multiply-add is two."""
        return self._matmul_flop

    def _hold(self, tile: np.ndarray) -> np.ndarray:
        self._held[id(tile)] = tile
        self._used += tile.size
        self._peak = max(self._peak, self._used)
        return tile

    def _make_room(self, elems: int, what: str) -> None:
        if self._capacity is not None and self._used + elems > self._capacity:
            raise SRAMOverflow(
                f"{what} needs {elems} elements, {self._used} of {self._capacity} are in use"
            )

    def load(
        self,
        array: HBMArray,
        start: int = 0,
        stop: int | None = None,
        *,
        columns: tuple[int, int] | None = None,
        hold: bool = True,
    ) -> np.ndarray:
        """Copy rows ``start`` to ``stop`` of an HBM array onto the chip. Counted.

        Parameters
        ----------
        array : HBMArray
        start, stop : int
            Rows; all of them if omitted.
        columns : (int, int), optional
            Start and stop of the columns; all of them if omitted.
        hold : bool
            False is for row statistics (one number a row) and mask bits, which live in registers:
            their traffic counts, their space does not.

        Raises
        ------
        SRAMOverflow
            If the tile does not fit beside what the chip holds.
        """
        if not isinstance(array, HBMArray):
            raise TypeError(f"load needs an array in HBM, got {type(array).__name__}")
        span = array._span(start, stop, columns)
        if not hold:
            if len(array.shape) != 1 and array.dtype != bool:
                raise ValueError(
                    "hold=False is for row statistics and masks; "
                    f"{array.name} has shape {array.shape}"
                )
            return array._load(span)
        self._make_room(array._elems(span), f"{array.name}[{span[0].start}:{span[0].stop}]")
        return self._hold(array._load(span))

    def store(
        self, array: HBMArray, values, start: int = 0, *, columns: tuple[int, int] | None = None
    ) -> None:
        """Write ``values`` to an HBM array, from row ``start`` on (in ``columns``, if given).
        Counted."""
        if not isinstance(array, HBMArray):
            raise TypeError(f"store needs an array in HBM, got {type(array).__name__}")
        array._store(values, start, columns)

    def alloc(self, shape, dtype=np.float64) -> np.ndarray:
        """Take room for a tile of zeros.

        Raises
        ------
        SRAMOverflow
            If it does not fit beside what the chip holds.
        """
        elems = int(np.prod(shape))
        self._make_room(elems, f"a tile of shape {tuple(np.atleast_1d(shape).tolist())}")
        return self._hold(np.zeros(shape, dtype))

    def free(self, *tiles: np.ndarray) -> None:
        """Give back the room of tiles that came from :meth:`load` or :meth:`alloc`."""
        for tile in tiles:
            if self._held.pop(id(tile), None) is None:
                raise ValueError(
                    "free takes the very tile that load or alloc gave, once; "
                    f"got another array of shape {np.shape(tile)}"
                )
            self._used -= tile.size

    def matmul(self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The matrix unit: ``a @ b``, summed in the chip's ``accumulate`` precision. Counts 2 m k
        n FLOP.

        Parameters
        ----------
        a, b : ndarray (m, k), (k, n)
            Tiles; of two dtypes, the wider one counts.
        out : ndarray (m, n), optional
            Where the product goes.

        Returns
        -------
        ndarray (m, n)
            In the accumulation dtype, or ``out``.
        """
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"cannot multiply tiles of shape {a.shape} and {b.shape}")
        acc = accumulation_dtype(np.result_type(a, b), self._accumulate)
        (m, k), n = a.shape, b.shape[1]
        if out is not None and out.shape != (m, n):
            raise ValueError(f"out must have shape {(m, n)}, got {out.shape}")
        self._matmul_flop += 2 * m * k * n
        with np.errstate(over="ignore", invalid="ignore"):
            product = _product(a, b, acc)
        if out is None:
            return product
        out[...] = product
        return out


def accumulation_dtype(dtype, accumulate=None) -> np.dtype:
    """The dtype in which products of ``dtype`` are summed.

    Raises
    ------
    ValueError
        If ``accumulate`` is narrower than the operands.

    Examples
    --------
    >>> accumulation_dtype("float16"), accumulation_dtype("float64")
    (dtype('float32'), dtype('float64'))
    """
    dtype = np.dtype(dtype)
    if accumulate is None:
        return np.dtype(np.float32) if dtype == np.float16 else dtype
    accumulate = _float_dtype(accumulate)
    if accumulate.itemsize < dtype.itemsize:
        raise ValueError(
            f"accumulate must be a float at least as wide as {dtype}, got {accumulate}"
        )
    return accumulate


def _float_dtype(accumulate) -> np.dtype:
    try:
        dtype = np.dtype(accumulate)
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind != "f":
        raise ValueError(f"accumulate must be a float dtype, got {accumulate!r}")
    return dtype


def _product(a: np.ndarray, b: np.ndarray, acc: np.dtype) -> np.ndarray:
    if acc != np.float16:
        return a.astype(acc, copy=False) @ b.astype(acc, copy=False)
    # numpy sums float16 products in float32, so round by hand after each multiply-add
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for k in range(a.shape[1]):
        total = (total + wide_a[:, k, None] * wide_b[k]).astype(np.float16)
    return total
