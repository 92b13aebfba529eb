"""Tables of numbers: columns as plain lists, as a DataFrame of pandas, as a table of Arrow."""

from __future__ import annotations

import csv
import html
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vink.errors import NotFoundError

if TYPE_CHECKING:
    import pandas
    import pyarrow


# Rows that a notebook shows.
SHOWN = 20


class Table:
    """Columns of the same length by their names. A cell without a value is None.

    Examples:
        >>> table = Table.of_rows([{"loss": 0, "seconds": 1.5}, {"loss": 1}])
        >>> table["seconds"]
        [1.5, None]
        >>> len(table), list(table.rows())[1]
        (2, {'loss': 1, 'seconds': None})
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns: dict[str, list[Any]] = {name: list(values) for name, values in columns.items()}

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Of rows that may lack some columns."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    @classmethod
    def read(cls, path: Path) -> Table:
        """A file that Vink has written: CSV, JSON lines or Parquet. A line that is not whole yet is left out."""
        if path.suffix == ".parquet":
            return cls(_parquet().read_table(path).to_pydict())
        text = path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        if path.suffix == ".jsonl":
            return cls.of_rows([json.loads(line) for line in lines])
        names, *rows = csv.reader(lines) if lines else [[]]
        return cls({name: [_number(row[at]) for row in rows] for at, name in enumerate(names)})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Row by row."""
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def pandas(self) -> pandas.DataFrame:
        """As a DataFrame, for which pandas must be installed."""
        try:
            import pandas
        except ImportError as error:
            raise NotFoundError("a DataFrame needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.columns)

    def arrow(self) -> pyarrow.Table:
        """As a table of Arrow, for which pyarrow must be installed."""
        try:
            import pyarrow
        except ImportError as error:
            raise NotFoundError("a table of Arrow needs pyarrow: pip install pyarrow") from error
        return pyarrow.table(self.columns)

    def write(self, path: Path) -> None:
        """As CSV, JSON lines or Parquet, by the file's ending. The same table is the same bytes."""
        if path.suffix == ".parquet":
            _parquet().write_table(self.arrow(), path)
        elif path.suffix == ".csv":
            with path.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(self.columns)
                writer.writerows(row.values() for row in self.rows())
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in self.rows()))

    def __getitem__(self, name: str) -> list[Any]:
        """A column."""
        return self.columns[name]

    def __len__(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values()), []))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.columns == other.columns

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """For notebooks: its first rows."""
        shown = itertools.islice(zip(*self.columns.values(), strict=True), SHOWN)
        rest = f"<p>{len(self)} rows</p>" if len(self) > SHOWN else ""
        return html_table(list(self.columns), shown) + rest

    def __repr__(self) -> str:
        return f"<vink.Table of {len(self)} rows: {', '.join(self.columns)}>"


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """For notebooks."""

    def row(kind: str, cells: Iterable[object]) -> str:
        return f"<tr>{''.join(f'<{kind}>{html.escape(str(cell))}</{kind}>' for cell in cells)}</tr>"

    return f"<table>{row('th', names)}{''.join(row('td', cells) for cells in rows)}</table>"


def _number(text: str) -> float | None:
    return float(text) if text else None


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise NotFoundError("Parquet needs pyarrow: pip install pyarrow; .csv and .jsonl need nothing") from error
    return parquet
