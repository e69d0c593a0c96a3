"use strict";

// Bytes by kind over time, stacked, with the budget and what happened meanwhile.

kit.view("memory", () => {
  const {report, find} = kit;
  const {memory, session} = report;
  const times = memory.times_ns;
  const kinds = memory.kinds.map((kind, place) => ({
    ...kind, colour: `kind-${place}`, on: true, label: kind.kind.replace("_", " "),
  })).filter((kind) => kind.peak_bytes > 0);
  if (kinds.length === 0) {
    kit.empty("memory-chart", "The trace has no bytes.");
    return;
  }

  const shapes = {
    record: ["triangle", 0, "kind-0", 0.93], evict: ["triangle", 180, "high", 0.88],
    mark: ["rect", 0, "ink", 0.98], fail: ["crossRot", 0, "high", 0.83],
    dropped: ["crossRot", 0, "medium", 0.83],
  };
  const budget = session.budget_bytes;
  const peak = Math.max(report.summary.total_peak_bytes, 1);
  // A budget far above all bytes would flatten them.
  const top = (budget > 0 && budget < 4 * peak ? Math.max(budget, peak) : peak) * 1.16;

  function bandOf(kind, place) {
    const colour = kit.colour(kind.colour);
    return {
      label: kind.label, type: "line", stack: "bytes", kind: true,
      fill: place === 0 ? "origin" : "-1",
      data: times.map((x, i) => ({x, y: kind.bytes[i]})), stepped: "before", pointRadius: 0,
      borderWidth: 1, borderColor: colour, backgroundColor: kit.faded(colour, 0.72),
    };
  }

  function momentsOf(name) {
    const [pointStyle, rotation, colour, y] = shapes[name];
    const moments = memory.moments.filter((moment) => moment[1] === name);
    return {
      label: name, type: "scatter", yAxisID: "marks", stack: name, pointStyle, rotation, radius: 5,
      texts: moments.map((one) => one[2]), data: moments.map(([x]) => ({x, y})),
      borderColor: kit.colour(colour), backgroundColor: kit.faded(kit.colour(colour), 0.55),
    };
  }

  function configure() {
    const datasets = kinds.filter((kind) => kind.on).map(bandOf);
    if (budget > 0 && budget <= top) {
      datasets.push({
        label: "budget", type: "line", yAxisID: "marks", stack: "budget", pointRadius: 0,
        data: [{x: 0, y: budget / top}, {x: session.last_ns, y: budget / top}], borderWidth: 2,
        borderDash: [7, 4], borderColor: kit.colour("high"),
      });
    }
    if (memory.suspensions_ns.length > 0) {
      datasets.push({
        label: "suspended", type: "boxes", yAxisID: "marks", parsing: false,
        data: memory.suspensions_ns.map(([left, right]) =>
          ({left, right, low: 0, high: 1, fill: kit.faded(kit.colour("low"), 0.25)})),
      });
    }
    for (const name of Object.keys(shapes))
      if (memory.moments.some((moment) => moment[1] === name)) datasets.push(momentsOf(name));
    return {type: "line", data: {datasets}, options: options()};
  }

  // All kinds at the time below the pointer, and the marks that it is on.
  Chart.Interaction.modes.moment = (chart, event) => {
    const at = chart.scales.x.getValueForPixel(event.x);
    const index = placeOf(at);
    const items = [];
    chart.data.datasets.forEach((dataset, datasetIndex) => {
      const meta = chart.getDatasetMeta(datasetIndex);
      if (dataset.kind) items.push({element: meta.data[index], datasetIndex, index});
      if (!dataset.texts) return;
      meta.data.forEach((element, place) => {
        if (Math.abs(element.x - event.x) <= 6 && items.length < 24)
          items.push({element, datasetIndex, index: place});
      });
    });
    return items;
  };

  function placeOf(at) {
    let low = 0;
    let high = times.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function options() {
    const budgetTitle = budget > top ? `bytes; the budget is ${kit.bytes(budget)}` : "bytes";
    return {
      interaction: {mode: "moment", intersect: false},
      scales: {
        x: kit.axis({min: 0, max: Math.max(session.last_ns, 1), format: kit.time,
          grid: {display: false}, ticks: {maxTicksLimit: 8}}),
        y: kit.byteAxis(top, {stacked: true, title: budgetTitle}),
        marks: {type: "linear", axis: "y", display: false, min: 0, max: 1},
      },
      plugins: {tooltip: {callbacks: {
        title: (items) => items.length ? kit.time(items[0].raw.x) : "",
        label: (item) => item.dataset.kind
          ? `${item.dataset.label}: ${kit.bytes(item.raw.y)}`
          : `${item.dataset.label}: ${item.dataset.texts[item.dataIndex]}`,
        footer: (items) => items.length ? `all: ${kit.bytes(
          memory.total_bytes[placeOf(items[0].raw.x)])}` : "",
      }}},
    };
  }

  let place = 0;
  function keys(event, one) {
    const jumps = {ArrowLeft: -1, ArrowRight: 1, PageUp: -25, PageDown: 25, Home: -Infinity,
      End: Infinity};
    if (!(event.key in jumps)) return;
    event.preventDefault();
    place = Math.min(Math.max(place + jumps[event.key], 0), times.length - 1);
    const active = kinds.filter((kind) => kind.on)
      .map((_, datasetIndex) => ({datasetIndex, index: place}));
    if (active.length === 0) return;
    const point = one.drawn.getDatasetMeta(active[0].datasetIndex).data[place];
    one.drawn.tooltip.setActiveElements(active, {x: point.x, y: point.y});
    one.drawn.update("none");
    kit.say(`${kit.time(times[place])}: ${kit.bytes(memory.total_bytes[place])} in all; ` +
      kinds.map((kind) => `${kind.label} ${kit.bytes(kind.bytes[place])}`).join(", "));
  }

  const one = kit.chart("memory-chart",
    `Bytes by kind over ${kit.time(session.last_ns)}, at most ` +
    `${kit.bytes(report.summary.total_peak_bytes)}. Arrow keys go from change to change.`,
    configure, keys);
  find("memory-controls").classList.add("legend-only");
  find("memory-controls").append(kit.legend(kinds, one.draw));
  kit.table("memory-table", "Bytes by kind of memory", [
    {label: "Kind", text: (kind) => kind.label + (kind.estimate ? " (an estimate)" : "")},
    {label: "At most", number: true, text: (kind) => kit.bytes(kind.peak_bytes)},
    {label: "At the last call", number: true, text: (kind) => kit.bytes(kind.service_end_bytes)},
    {label: "Torn down", number: true, text: (kind) => kit.bytes(kind.end_bytes)},
    {label: "What it is", text: (kind) => kind.what},
  ], memory.statics.peak_bytes > 0 ? [...kinds, {...memory.statics, label: "statics"}] : kinds);
});
