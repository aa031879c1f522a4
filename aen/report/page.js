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
