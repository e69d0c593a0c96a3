"use strict";

// Calls and recordings per lane. From afar a box is many calls, from near each is its own.

kit.view("timeline", () => {
  const {report, find} = kit;
  const {timeline, session} = report;
  const lanesMax = 16;
  const singleMax = 800;  // Calls in sight that are drawn one by one.
  const end = Math.max(session.last_ns, 1);
  if (timeline.path.length === 0) {
    kit.empty("timeline-chart", "The trace has no calls.");
    return;
  }

  let clock = 0;
  const times = timeline.steps_ns.map((step) => (clock += step));
  const names = new Map(report.buckets.map((row) => [row.bucket, row.name]));
  const launches = new Map(report.kernels.nodes);  // From nodes to lists.
  const state = {from: 0, to: end, group: 0};
  const groups = Math.ceil(session.lanes / lanesMax);

  // A row per lane and way to run that occurs there, and one for recordings.
  const rowOf = new Map();
  const rows = [];
  function findRows() {
    const ways = new Set(timeline.path.map((path, i) => timeline.lane[i] * 8 + path));
    for (const [lane] of timeline.recordings) ways.add(lane * 8 + 7);
    rowOf.clear();
    rows.length = 0;
    for (const way of [...ways].sort((a, b) => a - b)) {
      const lane = way >> 3;
      if (Math.floor(lane / lanesMax) !== state.group) continue;
      rowOf.set(way, rows.length);
      const path = way & 7;
      const name = path === 7 ? "to record" : timeline.paths[path];
      rows.push({
        label: `${session.lanes > 1 ? `lane ${lane} ` : ""}${name.replace("_", " ")}`,
        colour: `path-${path === 7 ? "record" : name}`,
      });
    }
  }

  // The first place whose time is not before `at`.
  function lowerBound(at) {
    let low = 0;
    let high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function boxOf(row, left, right, share, more) {
    return {left, right, low: row + 0.12, high: row + 0.88,
      fill: kit.faded(colours[row], 0.3 + 0.7 * share), ...more};
  }

  let colours = [];
  function callBoxes(first, last) {
    const made = [];
    const wide = (state.to - state.from) / 500;
    for (let i = first; i < last; ++i) {
      const row = rowOf.get(timeline.lane[i] * 8 + timeline.path[i]);
      if (row !== undefined) made.push(boxOf(row, times[i], times[i] + wide, 1, {call: i}));
    }
    return made;
  }

  function binBoxes(first, last) {
    const bins = 400;
    const wide = (state.to - state.from) / bins;
    const counts = new Uint32Array(rows.length * bins);
    const most = rows.map(() => 1);
    for (let i = first; i < last; ++i) {
      const row = rowOf.get(timeline.lane[i] * 8 + timeline.path[i]);
      if (row === undefined) continue;
      const bin = Math.min(Math.floor((times[i] - state.from) / wide), bins - 1);
      most[row] = Math.max(most[row], ++counts[row * bins + bin]);
    }
    const made = [];
    counts.forEach((count, place) => {
      if (count === 0) return;
      const row = Math.floor(place / bins);
      const left = state.from + (place % bins) * wide;
      made.push(boxOf(row, left, left + wide, Math.log1p(count) / Math.log1p(most[row]),
        {count, row}));
    });
    return made;
  }

  function recordingBoxes() {
    const made = [];
    for (const [lane, at, took, bucket, node] of timeline.recordings) {
      const row = rowOf.get(lane * 8 + 7);
      if (row !== undefined && at >= state.from && at - took <= state.to)
        made.push(boxOf(row, Math.max(at - took, 0), at, 0.8, {took, bucket, node}));
    }
    return made;
  }

  function describe(box) {
    if (box.took !== undefined) {
      return [`Recording of ${names.get(box.bucket) ?? `bucket ${box.bucket}`}`,
        `took ${kit.time(box.took)}, until ${kit.time(box.right)}`];
    }
    if (box.call === undefined) {
      return [`${rows[box.row].label}: ${kit.counted(box.count, "call")}`,
        `${exactTime(box.left)} to ${exactTime(box.right)}`];
    }
    const i = box.call;
    const bucket = timeline.bucket[i];
    return [
      `Call ${kit.count(timeline.call[i])} of lane ${timeline.lane[i]}`,
      bucket < 0 ? "in no bucket" : names.get(bucket) ?? `bucket ${bucket}`,
      `${timeline.paths[timeline.path[i]].replace("_", " ")}` +
        (timeline.reason[i] === 0 ? "" :
          `, ${timeline.reasons[timeline.reason[i]].replaceAll("_", " ")}`),
      `at ${exactTime(times[i])}` + (timeline.host_ns[i] < 0 ? ""
        : `, the host busy for ${kit.time(timeline.host_ns[i])}`),
    ];
  }

  // The kernels of the graph of a call or a recording, in the order of its launches.
  function kernelsOf(box) {
    const node = box.took !== undefined ? box.node : timeline.node[box.call];
    const list = report.kernels.lists[launches.get(node)];
    if (!list) {
      return kit.make("p", {className: "facts"}, node >= 0
        ? `The trace names no kernels of node ${node}.`
        : "It ran without a graph, so the trace has no kernels of it.");
    }
    kit.find("timeline-kernels")?.remove();
    const table = kit.make("div", {className: "scroll", id: "timeline-kernels"});
    requestAnimationFrame(() => kit.table("timeline-kernels",
      `${kit.counted(list.length, "kernel")} of node ${node}`, [
        {label: "Kernel", text: ([name]) => report.kernels.names[name]},
        {label: "Blocks", number: true, text: (row) => row[1].replaceAll("x", " × ")},
        {label: "Threads each", number: true, text: (row) => row[2].replaceAll("x", " × ")},
        {label: "Shared memory", number: true, text: (row) => row[3] ? kit.bytes(row[3]) : ""},
      ], list));
    return table;
  }

  function pin(box) {
    const single = box && box.count === undefined;
    boxes.showPinned("timeline-pinned", box && describe(box), ...(box === null ? [] : single
      ? [kernelsOf(box)]
      : [kit.make("p", {className: "facts"}, "Zoom in until single calls are visible, to see " +
        "what one launches.")]));
  }

  function configure() {
    colours = rows.map((row) => kit.colour(row.colour));
    const [first, last] = [lowerBound(state.from), lowerBound(state.to + 1)];
    const calls = last - first <= singleMax ? callBoxes(first, last) : binBoxes(first, last);
    return {
      type: "boxes",
      data: {datasets: [{data: [...calls, ...recordingBoxes()]}]},
      options: boxes.options(describe, pin,
        kit.axis({min: state.from, max: state.to, format: tickTime, ticks: {maxTicksLimit: 8}}),
        kit.axis({min: 0, max: Math.max(rows.length, 1), reverse: true, grid: {display: false},
          afterBuildTicks: kit.rowTicks(rows.length),
          ticks: {autoSkip: false}, format: (value) => rows[Math.floor(value)]?.label ?? ""})),
    };
  }

  // As many digits as tell two ticks apart, and some more.
  function exactTime(ns, more = 2) {
    const span = state.to - state.from;
    const [unit, name] = span > 2e9 ? [1e9, "s"] : span > 2e6 ? [1e6, "ms"] : [1e3, "µs"];
    const digits = Math.max(0, Math.ceil(Math.log10(unit / (span / 8)))) + more;
    return `${(ns / unit).toFixed(Math.min(digits, 6))} ${name}`;
  }
  const tickTime = (ns) => exactTime(ns, 0);

  let one = null;
  function look(from, to) {
    const span = Math.min(Math.max(to - from, 1000), end);
    state.from = Math.min(Math.max(from, 0), end - span);
    state.to = state.from + span;
    one.place = undefined;
    one.draw();
    const inSight = lowerBound(state.to + 1) - lowerBound(state.from);
    kit.say(`${exactTime(state.from)} to ${exactTime(state.to)}: ${kit.counted(inSight, "call")}`);
  }
  const zoom = (factor, at = (state.from + state.to) / 2) =>
    look(at - (at - state.from) * factor, at + (state.to - at) * factor);
  const shift = (share) => {
    const step = (state.to - state.from) * share;
    look(state.from + step, state.to + step);
  };

  const walk = boxes.keys(describe, pin);
  function keys(event, shown) {
    const acts = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => look(0, end),
      PageUp: () => shift(-0.5), PageDown: () => shift(0.5),
    };
    if (!(event.key in acts)) return walk(event, shown);
    event.preventDefault();
    acts[event.key]();
  }

  // A stretch that is drawn over with the pointer fills the chart.
  function addDragging(canvas) {
    let start = null;
    const timeAt = (event) => one.drawn.scales.x.getValueForPixel(event.offsetX);
    canvas.addEventListener("pointerdown", (event) => { start = timeAt(event); });
    canvas.addEventListener("pointerup", (event) => {
      const stop = timeAt(event);
      const far = Math.abs(stop - start) > (state.to - state.from) / 50;
      if (start !== null && far) look(Math.min(start, stop), Math.max(start, stop));
      start = null;
    });
    canvas.addEventListener("dblclick", () => look(0, end));
  }

  function draw() {
    findRows();
    find("timeline-chart").style.height = `${rows.length * 26 + 48}px`;
    one = kit.chart("timeline-chart",
      `${kit.counted(report.summary.calls, "call")} over ${kit.time(end)}, by lane and by how ` +
      "they ran. Plus and minus zoom, page up and down move, 0 shows all, arrow keys go from box " +
      "to box, Enter lists the kernels of one.",
      configure, keys);
    addDragging(one.canvas);
  }

  const groupNames = () => Array.from({length: groups}, (_, group) => {
    const first = group * lanesMax;
    return [String(group), `${first} to ${Math.min(first + lanesMax, session.lanes) - 1}`];
  });

  draw();
  find("timeline-controls").append(
    kit.button("Zoom in", () => zoom(0.5)), kit.button("Zoom out", () => zoom(2)),
    kit.button("Earlier", () => shift(-0.5)), kit.button("Later", () => shift(0.5)),
    kit.button("Show all", () => look(0, end)),
    ...(groups > 1 ? [kit.choice("Lanes", groupNames(), "0", (value) => {
      state.group = Number(value);
      draw();
    })] : []),
    kit.make("span", {className: "facts"}, "Or drag over a stretch; double-click shows all."));
});
