"""The report as one HTML file that needs nothing but itself."""

import base64
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import html
import re
import struct

# Nothing may be fetched; the page's own style, script and pictures suffice.
_POLICY = (
  "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
  " script-src 'unsafe-inline'"
)
_PIXELS = 1.5  # of an image for one of the page: sharp when magnified
_SMALL = 520  # two images up to this width may share a row
_STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --paper: #ffffff;
  --soft: #f3f4f6; --line: #d8dade; --quiet: #5c6066; --link: #0072b2;
  --best: #b34700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #16181c;
  --soft: #22252b; --line: #3a3e46; --quiet: #a2a7b0; --link: #56b4e9;
  --best: #ff9a52; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem 1rem 4rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', sans-serif; }
h1 { font-size: 1.5rem; margin: 1rem 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .5rem 0; } .quiet { color: var(--quiet); }
.verdict { font-size: 1.15rem; border-left: .3rem solid var(--best);
  padding: .25rem 0 .25rem .9rem; margin: 1rem 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.tile { background: var(--soft); border-radius: .5rem; flex: 1 1 9rem;
  padding: .6rem .9rem; }
.tile b { display: block; font-size: 1.5rem; }
.tile span { color: var(--quiet); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem;
  overflow-wrap: break-word; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
th { vertical-align: bottom; line-height: 1.25; }
th.number { white-space: normal; }
td.words { min-width: 9rem; }
thead button { all: unset; cursor: pointer; font-weight: 600; }
thead button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: ' \\25B2'; }
th[aria-sort=descending] button::after { content: ' \\25BC'; }
tr.best td { color: var(--best); font-weight: 600; }
tr.base td { color: var(--link); font-weight: 600; }
table.short tbody tr:nth-child(n+21) { display: none; }
button.more { margin: .6rem 0; padding: .35rem .8rem; font: inherit;
  color: var(--ink); background: var(--soft); cursor: pointer;
  border: 1px solid var(--line); border-radius: .4rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
figure { margin: 0; background: #ffffff; border-radius: .5rem; flex: 1 1 100%;
  border: 1px solid var(--line); padding: .6rem; color: #1d1d1f; }
figure.small { flex: 1 1 18rem; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { color: #4b4f55; font-size: .85rem; padding-top: .4rem; }
pre { background: var(--soft); border-radius: .5rem; overflow-x: auto;
  padding: .75rem 1rem; font-size: .85rem; }
details > summary { cursor: pointer; font-weight: 600; }
@media (min-width: 60rem) { wbr { display: none; } }
@media (max-width: 40rem) { figure { overflow-x: auto; }
  figure:not(.small) img { max-width: none; width: 36rem; }
  figcaption { position: sticky; left: 0; } }
@media (prefers-color-scheme: dark) { figure { background: #e9eaec; }
  figure img { mix-blend-mode: multiply; } }
"""
_SCRIPT = """
'use strict';
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, i) => row.cells[i].dataset.value ?? '';
  heads.forEach((head, i) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = head.textContent;
    head.replaceChildren(button);
    const numeric = head.classList.contains('number');
    const compare = (a, b) => numeric ? a - b : a.localeCompare(b);
    button.addEventListener('click', () => {
      const first = head.dataset.first;
      const other = first === 'ascending' ? 'descending' : 'ascending';
      const order = head.ariaSort === first ? other : first;
      heads.forEach(each => each.removeAttribute('aria-sort'));
      head.ariaSort = order;
      const sign = order === 'ascending' ? 1 : -1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, i), value(b, i)];
        if (x === '' || y === '') return (x === '') - (y === '');
        return sign * compare(x, y);
      });
      body.append(...rows);
    });
  });
  if (body.rows.length > 20) {
    const more = document.createElement('button');
    more.type = 'button';
    more.className = 'more';
    const toggle = () => {
      const short = table.classList.toggle('short');
      more.textContent = short ?
        `Show all ${body.rows.length}` : 'Show the first 20';
    };
    toggle();
    more.addEventListener('click', toggle);
    table.parentElement.after(more);
  }
}
"""


@dataclasses.dataclass(frozen=True)
class Cell:
  """One cell of a table.

  Attributes:
    text: What is read.
    value: What is sorted by; by default the text. Empty cells come last.
  """

  text: str
  value: float | str | None = None


@dataclasses.dataclass(frozen=True)
class Column:
  """One column of a table: numbers, best first, or words."""

  name: str
  numeric: bool = False
  ascending: bool = True  # at the first click


@dataclasses.dataclass(frozen=True)
class Row:
  """One row of a table, and what it is: '', 'best' or 'base'."""

  cells: Sequence[Cell]
  kind: str = ''


def page(title: str, sections: Iterable[str]) -> str:
  """Returns a whole page. Titles are text, sections are HTML."""
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<link rel="icon" href="data:,">\n<title>{text(title)}</title>\n'
    f'<style>{_STYLE}</style>\n</head>\n<body>\n'
    + '\n'.join(sections)
    + f'\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
  )


def text(words: str) -> str:
  """Returns words as HTML that shows exactly them."""
  return html.escape(words, quote=True)


def paragraph(words: str, kind: str = '') -> str:
  """Returns a paragraph."""
  return f'<p{_class(kind)}>{_unbroken(text(words))}</p>'


def _unbroken(shown: str) -> str:
  """Keeps thousands, and numbers and their percent signs, in one line."""
  return re.sub(r'(?<=\d) (?=\d|%)', '&nbsp;', shown)


def heading(words: str, level: int = 2) -> str:
  """Returns a heading."""
  return f'<h{level}>{text(words)}</h{level}>'


def code(lines: str) -> str:
  """Returns a program to be copied."""
  return f'<pre><code>{text(lines)}</code></pre>'


def details(summary: str, content: str) -> str:
  """Returns HTML that opens on a click."""
  return f'<details><summary>{text(summary)}</summary>{content}</details>'


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
  """Returns large numbers with what they are."""
  shown = (
    f'<div class="tile"><b>{text(number)}</b>'
    f'<span>{_breakable(text(name))}</span></div>'
    for number, name in numbers
  )
  return f'<div class="tiles">{"".join(shown)}</div>'


def picture(png: bytes, alt: str, caption: str) -> str:
  """Returns a figure that holds its image."""
  data = base64.b64encode(png).decode('ascii')
  width, height = (
    round(side / _PIXELS) for side in struct.unpack('>II', png[16:24])
  )
  return (
    f'<figure{_class("small" * (width <= _SMALL))}><img width="{width}"'
    f' height="{height}" alt="{text(alt)}" src="data:image/png;base64,{data}">'
    f'<figcaption>{text(caption)}</figcaption></figure>'
  )


def row(pictures: Iterable[str]) -> str:
  """Returns pictures side by side where there is room."""
  return f'<div class="figures">{"".join(pictures)}</div>'


def table(
  columns: Sequence[Column], rows: Iterable[Row], name: str, sortable: bool
) -> str:
  """Returns a table; a sortable one is sorted by a click on a heading."""
  heads = ''.join(_head(column) for column in columns)
  body = '\n'.join(
    f'<tr{_class(row.kind)}>'
    + ''.join(
      _cell(cell, column)
      for cell, column in zip(row.cells, columns, strict=True)
    )
    + '</tr>'
    for row in rows
  )
  return (
    f'<div class="scroll"><table{_class("sortable" * sortable)}'
    f' aria-label="{text(name)}"><thead><tr>{heads}</tr></thead>\n'
    f'<tbody>\n{body}\n</tbody></table></div>'
  )


def _head(column: Column) -> str:
  first = 'ascending' if column.ascending else 'descending'
  kind = 'number' if column.numeric else 'words'
  return (
    f'<th scope="col" class="{kind}" data-first="{first}">'
    f'{text(column.name)}</th>'
  )


def _cell(cell: Cell, column: Column) -> str:
  value = cell.text if cell.value is None else cell.value
  kind = 'number' if column.numeric else 'words'
  shown = _breakable(text(cell.text))
  return f'<td class="{kind}" data-value="{text(str(value))}">{shown}</td>'


def _breakable(shown: str) -> str:
  """Lets long names continue in the next line, where space is short."""
  return shown.replace('_', '_<wbr>')


def _class(kind: str) -> str:
  return f' class="{kind}"' if kind else ''
