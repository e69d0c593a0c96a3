"use strict";

// The table of buckets: sorted by any column, filtered by name.

kit.view("buckets", () => {
  const {report, make, find} = kit;
  const all = report.buckets;
  const rowsMax = 200;  // At once; a button shows more.
  if (all.length === 0) {
    kit.empty("buckets-table", "The trace has no bucket.");
    return;
  }
  const state = {key: "calls", falling: true, filter: "", most: rowsMax};

  const measured = (label, key, text, kind = "") => ({
    label, key, number: true, text, kind, top: Math.max(...all.map((row) => row[key]), 0),
  });
  const columns = [
    {label: "Bucket", key: "name", text: (row) => row.name},
    {label: "Lane", key: "lane", number: true, text: (row) => String(row.lane)},
    measured("Calls", "calls", (row) => kit.count(row.calls)),
    measured("Replays", "replays", (row) => kit.count(row.replays)),
    measured("Padding", "padded_share_pct", (row) => kit.percent(row.padded_share_pct), "waste"),
    measured("Plan height", "height_bytes", (row) => kit.bytes(row.height_bytes)),
    measured("Only it", "exclusive_bytes", (row) => kit.bytes(row.exclusive_bytes)),
    measured("Graphs*", "exec_bytes_estimate", (row) => kit.bytes(row.exec_bytes_estimate)),
    measured("To record", "record_ns", (row) => kit.time(row.record_ns)),
    {label: "Last call", key: "last_call_ns", number: true,
      text: (row) => row.last_call_ns < 0 ? "never" : kit.time(row.last_call_ns)},
  ];

  function activity(row) {
    const top = Math.max(...row.calls_over_time, 1);
    const busiest = row.calls_over_time.indexOf(top);
    const bars = row.calls_over_time.map((calls) => {
      const bar = make("span");
      bar.style.height = `${100 * calls / top}%`;
      return bar;
    });
    return make("div", {className: "bars", role: "img",
      "aria-label": row.calls === 0 ? "no calls"
        : `busiest in part ${busiest + 1} of ${row.calls_over_time.length} of the time`}, ...bars);
  }

  function compare(a, b) {
    const [x, y] = [a[state.key], b[state.key]];
    const order = typeof x === "string"
      ? x.localeCompare(y, "en", {numeric: true}) : x - y;
    return (state.falling ? -order : order) || a.bucket - b.bucket;
  }

  function sortBy(column) {
    state.falling = state.key === column.key ? !state.falling : column.key !== "name";
    state.key = column.key;
    draw();
    const sorted = find("buckets-table").querySelector("th[aria-sort] button");
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
      column.top > 0 ? kit.spark(row[column.key] / column.top, column.kind) : null)),
    make("td", {}, activity(row)));
  }

  function draw() {
    const chosen = all.filter((row) => row.name.includes(state.filter)).sort(compare);
    const shown = chosen.slice(0, state.most);
    const box = find("buckets-table");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Buckets");
    box.replaceChildren(make("table", {},
      make("caption", {}, `${kit.count(shown.length)} of ${kit.counted(all.length, "bucket")}; ` +
        "* executable graphs in the driver, an estimate"),
      make("thead", {}, make("tr", {}, ...columns.map(heading),
        make("th", {scope: "col"}, "Calls over time"))),
      make("tbody", {}, ...shown.map(rowOf))));
    if (shown.length < chosen.length) {
      box.append(kit.button(`Show ${kit.count(rowsMax)} more`, () => {
        state.most += rowsMax;
        draw();
      }));
    }
  }

  const search = make("input", {type: "search"});
  search.addEventListener("input", () => {
    state.filter = search.value;
    draw();
  });
  find("buckets-controls").append(make("label", {}, "Name contains", search));
  draw();
});
