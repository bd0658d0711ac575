"""The counted machine of a check: its books are kept where an answer does not come by.

The answer gets a :class:`CheckedSRAM` and :class:`CheckedArray` objects that behave like the ones
in :mod:`lecture_code.memory`. Numbers and counts live in records beside them, so overwriting an
attribute changes nothing. A tile that was freed holds NaN, and ``copy_out`` is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..memory import SRAM, HBMArray


@dataclass
class Books:
    """What one run did, counted apart from the chip's own counters."""

    capacity: int
    used: int = 0
    peak: int = 0
    flop: int = 0
    moving: bool = False
    breach: str = ""
    events: None = None
    _loads: int = 0
    _stores: int = 0

    @property
    def loads(self) -> int:
        return self._loads

    @property
    def stores(self) -> int:
        return self._stores

    def hold(self, elems: int) -> None:
        self.used += elems
        self.peak = max(self.peak, self.used)


@dataclass
class Record:
    """The numbers of one array in HBM, and which of them were ever loaded or stored."""

    books: Books
    values: np.ndarray
    loaded: np.ndarray = field(init=False)
    stored: np.ndarray = field(init=False)

    def __post_init__(self):
        self.loaded = np.zeros(self.values.shape, bool)
        self.stored = np.zeros(self.values.shape, bool)


_records: dict[int, Record] = {}
_books: dict[int, Books] = {}


class CheckedArray(HBMArray):
    """An array in HBM for one check."""

    __slots__ = ()

    def __init__(self, name: str, record: Record):
        # the books count loads and stores as an HBM does
        self.name, self._hbm, self._code = name, record.books, 0
        _records[id(self)] = record

    @property
    def shape(self):
        return _records[id(self)].values.shape

    @property
    def dtype(self):
        return _records[id(self)].values.dtype

    def __len__(self):
        return len(_records[id(self)].values)

    def _numbers(self):
        record = _records[id(self)]
        return record.values if record.books.moving else self._breach("the numbers behind it")

    @property
    def _HBMArray__values(self):
        return self._breach("the numbers behind it")

    def copy_out(self):
        """Closed during a check."""
        return self._breach("copy_out()")

    def _breach(self, what: str):
        _records[id(self)].books.breach = f"{what}, {self.name}"
        self._refuse()

    def _load(self, span):
        tile = super()._load(span)
        _records[id(self)].loaded[span] = True
        return tile

    def _store(self, values, start, columns=None):
        super()._store(values, start, columns)
        span = self._span(start, start + len(values), columns)
        _records[id(self)].stored[span] = True


class CheckedSRAM(SRAM):
    """The chip of one check."""

    def __init__(self, books: Books):
        super().__init__(books.capacity)
        _books[id(self)] = books

    def load(self, array, start=0, stop=None, *, columns=None, hold=True):
        """As :meth:`SRAM.load`."""
        books = _books[id(self)]
        books.moving = True
        try:
            tile = super().load(array, start, stop, columns=columns, hold=hold)
        finally:
            books.moving = False
        if hold:
            books.hold(tile.size)
        return tile

    def store(self, array, values, start=0, *, columns=None):
        """As :meth:`SRAM.store`."""
        books = _books[id(self)]
        books.moving = True
        try:
            super().store(array, values, start, columns=columns)
        finally:
            books.moving = False

    def alloc(self, shape, dtype=np.float64):
        """As :meth:`SRAM.alloc`."""
        tile = super().alloc(shape, dtype)
        _books[id(self)].hold(tile.size)
        return tile

    def free(self, *tiles):
        """As :meth:`SRAM.free`; what the tiles held is gone."""
        super().free(*tiles)
        for tile in tiles:
            _books[id(self)].used -= tile.size
            if tile.dtype.kind == "f":
                tile.fill(np.nan)

    def matmul(self, a, b, out=None):
        """As :meth:`SRAM.matmul`."""
        product = super().matmul(a, b, out)
        _books[id(self)].flop += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        return product


class Machine:
    """A chip, inputs placed in HBM, outputs filled with NaN. Use as a context: it forgets at
    the end."""

    def __init__(self, capacity: int, inputs: dict, outputs: dict):
        self.books = Books(capacity)
        self.chip = CheckedSRAM(self.books)
        self.inputs = {name: Record(self.books, np.array(x)) for name, x in inputs.items()}
        self.outputs = {
            name: Record(self.books, np.full(shape, np.nan)) for name, shape in outputs.items()
        }
        records = self.inputs | self.outputs
        self.arrays = [CheckedArray(name, record) for name, record in records.items()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _books.pop(id(self.chip), None)
        for array in self.arrays:
            _records.pop(id(array), None)
