"use strict";

// Durations as shares per bin of a logarithmic axis, and as percentiles.

const durations = {
  columns: (what) => [
    {label: what, text: (row) => row.label},
    {label: "Timed", number: true, text: (row) => row.timed ?? kit.count(row.count)},
    ...[["Median", "p50_ns"], ["90 %", "p90_ns"], ["99 %", "p99_ns"], ["Longest", "max_ns"],
      ["Mean", "mean_ns"]].map(([label, key]) =>
      ({label, number: true, text: (row) => kit.time(row[key])})),
  ],

  // Rows are what DurationsOf makes, each with `label`, `colour` and `on`.
  chart(id, label, rows) {
    const binsPerDoubling = 4;
    const first = Math.min(...rows.map((row) => row.first_bin));
    const end = Math.max(...rows.map((row) => row.first_bin + row.bins.length));
    const edge = (bin) => 2 ** (bin / binsPerDoubling);
    const share = (row, place) => 100 * (row.bins[first + place - row.first_bin] ?? 0) / row.count;

    // Round times: powers of ten, and where there are few of them, twice and five times that.
    function ticks(axis) {
      const factors = end - first > 40 ? [1] : [1, 2, 5];
      axis.ticks = [];
      for (let power = 10 ** Math.floor(Math.log10(edge(first))); power <= edge(end); power *= 10) {
        for (const factor of factors) {
          const value = Math.log2(factor * power) * binsPerDoubling;
          if (value >= first && value <= end) axis.ticks.push({value});
        }
      }
    }

    function configure() {
      return {
        type: "bar",
        data: {datasets: rows.map((row) => ({
          label: row.label, hidden: !row.on, backgroundColor: kit.faded(kit.colour(row.colour), 0.7),
          grouped: false, barPercentage: 1, categoryPercentage: 1,
          data: Array.from({length: end - first}, (_, place) =>
            ({x: first + place + 0.5, y: share(row, place)})),
        }))},
        options: {
          interaction: {mode: "index", intersect: false},
          scales: {
            x: kit.axis({min: first, max: end, offset: false, grid: {display: false},
              afterBuildTicks: ticks, format: (bin) => kit.time(Math.round(edge(bin)))}),
            y: kit.axis({min: 0, title: "share of each", format: (value) => `${value} %`}),
          },
          plugins: {tooltip: {
            filter: (item) => item.raw.y > 0,
            callbacks: {
              title: (items) => items.length ? durations.span(edge, first, items[0].dataIndex) : "",
              label: (item) => `${item.dataset.label}: ${kit.percent(item.raw.y)}`,
            }}},
        },
      };
    }

    let place = -1;
    function keys(event, one) {
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!way) return;
      event.preventDefault();
      place = Math.min(Math.max(place + way, 0), end - first - 1);
      const active = rows.map((_, datasetIndex) => ({datasetIndex, index: place}));
      one.drawn.tooltip.setActiveElements(active, {x: 0, y: 0});
      one.drawn.update("none");
      kit.say(`${durations.span(edge, first, place)}: ` + rows.map((row) =>
        `${row.label} ${kit.percent(share(row, place))}`).join(", "));
    }
    return kit.chart(`${id}-chart`, `${label} The table below has percentiles; arrow keys go from ` +
      "short to long.", configure, keys);
  },

  span: (edge, first, place) => `${kit.time(Math.round(edge(first + place)))} to ` +
    kit.time(Math.round(edge(first + place + 1))),
};

kit.view("times", () => {
  const {report, find} = kit;
  const rows = report.times.paths.map((path) => ({
    ...path, label: path.path.replace("_", " "), colour: `path-${path.path}`, on: true,
    timed: `${kit.count(path.count)} of ${kit.count(path.calls)}`,
  }));
  if (rows.length === 0) {
    kit.empty("times-chart", "The trace has no host times of calls.");
    return;
  }
  const one = durations.chart("times",
    `How long the host was busy with a call, for ${rows.map((row) => row.label).join(", ")}.`, rows);
  find("times-controls").classList.add("legend-only");
  find("times-controls").append(kit.legend(rows, one.draw));
  kit.table("times-table", "Host time of calls", durations.columns("Ran as"), rows);
});
