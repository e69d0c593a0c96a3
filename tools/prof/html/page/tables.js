"use strict";

// Tables that any column sorts and a text or choices narrow.

// Columns are {label, key, text(row), number?, top?, kind?, first?}: `key` is what is compared,
// `top` draws a bar as a share of it, `first` makes it fall at once. Rows are kept where `keep(row)`
// is true; `more(row)` makes a cell behind the others.
kit.sortable = (id, {label, caption, columns, rows, key, falling = true, keep = () => true, more,
  moreLabel}) => {
  const {make, find} = kit;
  const rowsMax = 200;  // At once; a button shows more.
  const state = {key, falling, most: rowsMax};

  function compare(a, b) {
    const [x, y] = [a[state.key], b[state.key]];
    const order = typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y;
    return state.falling ? -order : order;
  }

  function sortBy(column) {
    state.falling = state.key === column.key ? !state.falling : Boolean(column.number);
    state.key = column.key;
    draw();
    const sorted = find(id).querySelector("th[aria-sort] button");
    if (sorted) sorted.focus();
    kit.say(`Sorted by ${column.label}, ${state.falling ? "largest" : "smallest"} first`);
  }

  function heading(column) {
    const cell = make("th", {scope: "col", className: column.number ? "number" : ""},
      kit.button(column.label, () => sortBy(column)));
    if (column.key === state.key)
      cell.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
    return cell;
  }

  function rowOf(row) {
    return make("tr", {}, ...columns.map((column, place) => make(place === 0 ? "th" : "td",
      {className: column.number ? "number" : "", ...(place === 0 ? {scope: "row"} : {})},
      column.text(row),
      column.top > 0 ? kit.spark(Math.abs(row[column.key]) / column.top, column.kind) : null)),
    more ? make("td", {}, more(row)) : null);
  }

  function draw() {
    // Rows that are equal stay in their own order.
    const chosen = rows.filter(keep).sort(compare);
    const shown = chosen.slice(0, state.most);
    const box = find(id);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    box.replaceChildren(make("table", {},
      make("caption", {}, caption(shown.length)),
      make("thead", {}, make("tr", {}, ...columns.map(heading),
        more ? make("th", {scope: "col"}, moreLabel) : null)),
      make("tbody", {}, ...shown.map(rowOf))));
    if (shown.length < chosen.length) {
      box.append(kit.button(`Show ${kit.count(rowsMax)} more`, () => {
        state.most += rowsMax;
        draw();
      }));
    }
  }
  draw();
  return draw;
};

// A field that calls `change(text)` with what it holds.
kit.search = (label, change) => {
  const field = kit.make("input", {type: "search"});
  field.addEventListener("input", () => change(field.value));
  return kit.make("label", {}, label, field);
};
