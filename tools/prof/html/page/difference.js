"use strict";

// Two traces: in words, by kind of memory, figure by figure, and by reason.

kit.signed = (value, format) =>
  value === 0 ? "±0" : `${value > 0 ? "+" : "−"}${format(Math.abs(value))}`;

// "+12.5 %"; what came from nothing has no percentage.
kit.growth = (before, after) =>
  before === after ? "" : before > 0 ? kit.signed((after - before) / before * 100, kit.percent)
    : "from 0";

kit.view("overview", () => {
  const {report, make, find} = kit;
  const {before, after} = report;
  const first = report.findings.find((finding) => finding.level !== "good") ?? report.findings[0];
  find("headline").textContent = report.changes.length + report.reasons.length === 0
    ? "Nothing changed" : first.title;
  find("session").textContent = `${after.name} against ${before.name}: ` +
    `${kit.counted(after.calls, "call")} on ${after.device} against ` +
    `${kit.count(before.calls)} on ${before.device}.`;

  function tile(title, key, format) {
    const same = before[key] === after[key];
    return make("div", {}, make("dt", {}, title), make("dd", {}, format(after[key])),
      make("dd", {className: "note"}, same ? "the same before"
        : `${format(before[key])} before`));
  }
  find("overview-tiles").append(
    tile("Peak", "total_peak_bytes", kit.bytes), tile("Buckets", "buckets", kit.count),
    tile("Graphs recorded", "graphs_recorded", kit.count), tile("Calls", "calls", kit.count),
    tile("Replays", "replays", kit.count), tile("Padding", "padded_share_pct", kit.percent));

  const words = {high: "Costly", medium: "Look at", low: "Minor", good: "Good"};
  const names = {kinds: "Memory", changes: "Changes", reasons: "Reasons"};
  find("overview-findings").append(...report.findings.map((finding) => make("li", {},
    make("span", {className: `level ${finding.level}`}, words[finding.level]),
    make("div", {}, make("h3", {}, finding.title),
      make("p", {className: "what"}, finding.what, " ",
        make("a", {href: `#${finding.view}`}, `See ${names[finding.view]}`))))));

  const gaps = [before, after].filter((side) => side.dropped_events > 0 || !side.ended)
    .map((side) => side.dropped_events > 0
      ? `${side.name} lost ${kit.counted(side.dropped_events, "event")}, so its counts are too low.`
      : `${side.name} has no end: its session was still running, or ended abnormally.`);
  find("gaps").hidden = gaps.length === 0;
  find("gaps").textContent = gaps.join(" ");
  const {changes} = report.limits;
  find("limits").textContent = changes
    ? `The page has the first ${kit.count(changes.shown)} of ${kit.count(changes.of)} changes; ` +
      "coppice prof diff --json prints all."
    : "Nothing that changed was left out.";
});

kit.view("kinds", () => {
  const {report, find} = kit;
  // The application's own memory stands behind the session's.
  const kinds = report.statics ? [...report.kinds, report.statics] : report.kinds;
  if (kinds.length === 0) {
    kit.empty("kinds-chart", "Neither trace has any bytes.");
    return;
  }
  const label = (kind) => kind.kind.replace("_", " ");
  const series = [
    {key: "before_peak_bytes", label: "before", colour: "kind-6", on: true},
    {key: "after_peak_bytes", label: "after", colour: "kind-0", on: true},
  ];
  const top = Math.max(...kinds.flatMap((kind) => series.map(({key}) => kind[key])), 1);
  const change = (kind) => kit.signed(kind.after_peak_bytes - kind.before_peak_bytes, kit.bytes);

  function configure() {
    return {
      type: "bar",
      data: {datasets: series.map((one) => ({
        label: one.label, hidden: !one.on, backgroundColor: kit.colour(one.colour),
        barPercentage: 0.9, categoryPercentage: 0.8,
        data: kinds.map((kind, place) => ({x: kind[one.key], y: place + 0.5})),
      }))},
      options: {
        indexAxis: "y", interaction: {mode: "index", axis: "y", intersect: false},
        scales: {
          x: kit.byteAxis(top * 1.02, {title: "bytes at most"}),
          y: kit.axis({min: 0, max: kinds.length, reverse: true, grid: {display: false},
            afterBuildTicks: kit.rowTicks(kinds.length), offset: false, ticks: {autoSkip: false},
            format: (value) => label(kinds[Math.floor(value)] ?? {kind: ""})}),
        },
        plugins: {tooltip: {callbacks: {
          title: (items) => items.length ? label(kinds[items[0].dataIndex]) : "",
          label: (item) => `${item.dataset.label}: ${kit.bytes(item.raw.x)}`,
          footer: (items) => items.length ? change(kinds[items[0].dataIndex]) : "",
        }}},
      },
    };
  }

  let place = -1;
  function keys(event, one) {
    const way = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    place = Math.min(Math.max(place + way, 0), kinds.length - 1);
    const active = series.map((_, datasetIndex) => ({datasetIndex, index: place}));
    one.drawn.tooltip.setActiveElements(active, {x: 0, y: 0});
    one.drawn.update("none");
    const kind = kinds[place];
    kit.say(`${label(kind)}: ${kit.bytes(kind.before_peak_bytes)} before, ` +
      `${kit.bytes(kind.after_peak_bytes)} after, ${change(kind)}`);
  }

  find("kinds-chart").style.height = `${kinds.length * 44 + 60}px`;
  const one = kit.chart("kinds-chart",
    `The most bytes of each of ${kit.counted(kinds.length, "kind")} of memory, before and after. ` +
    "The table below has the figures; arrow keys go from kind to kind.", configure, keys);
  find("kinds-controls").classList.add("legend-only");
  find("kinds-controls").append(kit.legend(series, one.draw));

  kit.sortable("kinds-table", {
    label: "Bytes by kind", key: "moved", rows: kinds.map((kind) => ({...kind, name: label(kind),
      moved: kind.after_peak_bytes - kind.before_peak_bytes})),
    caption: () => "At most, and at the last call",
    columns: [
      {label: "Kind", key: "name", text: (row) => row.name + (row.estimate ? " (estimate)" : "")},
      {label: "Before", key: "before_peak_bytes", number: true,
        text: (row) => kit.bytes(row.before_peak_bytes)},
      {label: "After", key: "after_peak_bytes", number: true,
        text: (row) => kit.bytes(row.after_peak_bytes)},
      {label: "Change", key: "moved", number: true, text: (row) => kit.signed(row.moved, kit.bytes)},
      {label: "Last call, before", key: "before_service_end_bytes", number: true,
        text: (row) => kit.bytes(row.before_service_end_bytes)},
      {label: "Last call, after", key: "after_service_end_bytes", number: true,
        text: (row) => kit.bytes(row.after_service_end_bytes)},
      {label: "What it is", key: "what", text: (row) => row.what},
    ],
  });
});

kit.view("changes", () => {
  const {report, find} = kit;
  if (report.changes.length === 0) {
    kit.empty("changes-table", "All figures are equal.");
    return;
  }
  const words = {new: "appeared", gone: "vanished", grew: "grew", shrank: "shrank"};
  // Growth in percent as a number that sorts: what appeared stands above all, what vanished below.
  const growth = (row) => row.before === null ? Infinity : row.after === null ? -Infinity
    : row.before === 0 ? Infinity : (row.after - row.before) / row.before * 100;
  const rows = report.changes.map((row) => ({
    ...row, growth: growth(row), word: words[row.state],
    was: row.before ?? -1, is: row.after ?? -1,
    // Bytes come before counts, whichever number is larger.
    order: (row.unit === "bytes" ? 2 ** 53 : 0) + Math.abs(row.delta),
  }));
  const format = (row, value) => value === null ? "–"
    : row.unit === "bytes" ? kit.bytes(value) : kit.count(value);
  const state = {word: "", unit: "", text: ""};
  const draw = kit.sortable("changes-table", {
    label: "Changes", rows, key: "order",
    keep: (row) => (state.word === "" || row.state === state.word) &&
      (state.unit === "" || row.unit === state.unit) &&
      `${row.subject} ${row.figure}`.includes(state.text),
    caption: (shown) => `${kit.count(shown)} of ${kit.counted(rows.length, "change")}; ` +
      "* executable graphs in the driver (estimated)",
    columns: [
      {label: "Of what", key: "subject", text: (row) => row.subject},
      {label: "Figure", key: "figure", text: (row) => row.figure.replace("_", " ")},
      {label: "It", key: "word", text: (row) => row.word},
      {label: "Before", key: "was", number: true, text: (row) => format(row, row.before)},
      {label: "After", key: "is", number: true, text: (row) => format(row, row.after)},
      {label: "Change", key: "order", number: true,
        text: (row) => kit.signed(row.delta, (value) => format(row, value))},
      {label: "Growth", key: "growth", number: true,
        text: (row) => Number.isFinite(row.growth) ? kit.signed(row.growth, kit.percent) : ""},
    ],
  });
  const choose = (key) => (value) => {
    state[key] = value;
    draw();
  };
  find("changes-controls").append(
    kit.choice("Show what", [["", "changed"], ...Object.entries(words)], "", choose("word")),
    kit.choice("In", [["", "any unit"], ["bytes", "bytes"], ["count", "counts"]], "",
      choose("unit")),
    kit.search("Name contains", choose("text")));
});

kit.view("reasons", () => {
  const {report} = kit;
  if (report.reasons.length === 0) {
    kit.empty("reasons-table", "The same calls did not replay, for the same reasons.");
    return;
  }
  kit.sortable("reasons-table", {
    label: "Reasons", key: "size",
    rows: report.reasons.map((row) => ({...row, size: Math.abs(row.delta)})),
    caption: (shown) => kit.counted(shown, "reason"),
    columns: [
      {label: "Program", key: "program", text: (row) => row.program},
      {label: "Reason", key: "reason", text: (row) => row.reason.replaceAll("_", " ")},
      {label: "Before", key: "before", number: true, text: (row) => kit.count(row.before)},
      {label: "After", key: "after", number: true, text: (row) => kit.count(row.after)},
      {label: "Change", key: "size", number: true, text: (row) => kit.signed(row.delta, kit.count)},
      {label: "What to do", key: "advice", text: (row) => row.advice},
    ],
  });
});
