"use strict";

// Calls that did not replay: over time, by cause with advice, recordings that failed, one by one.

kit.view("why", () => {
  const {report, make, find} = kit;
  const {why, session} = report;
  if (why.causes.length === 0) {
    kit.empty("why-chart", "Every call replayed.");
    return;
  }

  const labelOf = (cause) => `${cause.program}: ${cause.reason.replaceAll("_", " ")}`;
  const whole = why.bars.length === why.causes.length;
  const series = why.bars.map((bars, place) => ({
    bars, colour: `kind-${(place * 3 + 1) % 10}`, on: true,
    label: place === why.bars.length - 1 && !whole ? "all others" : labelOf(why.causes[place]),
  }));
  const width = Math.max(session.last_ns, 1) / why.bars[0].length;

  function configure() {
    return {
      type: "bar",
      data: {datasets: series.map((one) => ({
        label: one.label, hidden: !one.on, stack: "calls", barPercentage: 1, categoryPercentage: 1,
        barThickness: "flex", backgroundColor: kit.colour(one.colour),
        data: one.bars.map((y, i) => ({x: (i + 0.5) * width, y})),
      }))},
      options: {
        interaction: {mode: "index", intersect: false},
        scales: {
          x: kit.axis({min: 0, max: width * why.bars[0].length, stacked: true, offset: false,
            grid: {display: false}, format: kit.time, ticks: {maxTicksLimit: 8}}),
          y: kit.axis({min: 0, stacked: true, title: "calls", format: kit.count,
            ticks: {precision: 0}}),
        },
        plugins: {tooltip: {
          filter: (item) => item.raw.y > 0,
          callbacks: {
            title: (items) => items.length
              ? `${kit.time(items[0].raw.x - width / 2)} to ${kit.time(items[0].raw.x + width / 2)}`
              : "",
            label: (item) => `${item.dataset.label}: ${kit.count(item.raw.y)}`,
          }}},
      },
    };
  }

  let place = -1;
  function keys(event, one) {
    const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!way) return;
    event.preventDefault();
    place = Math.min(Math.max(place + way, 0), why.bars[0].length - 1);
    const active = series.map((_, datasetIndex) => ({datasetIndex, index: place}));
    one.drawn.tooltip.setActiveElements(active, {x: 0, y: 0});
    one.drawn.update("none");
    kit.say(`${kit.time(place * width)}: ` + series.map((each) =>
      `${each.label} ${kit.count(each.bars[place])}`).join(", "));
  }

  const one = kit.chart("why-chart",
    `${kit.counted(why.count, "call")} that did not replay, over time and by cause. The table ` +
    "below has the counts; arrow keys go along the time.", configure, keys);
  find("why-chart").before(make("div", {className: "controls legend-only"},
    kit.legend(series, one.draw)));

  const first = (row) => `${kit.time(row.first.time_ns)}, lane ${row.first.lane}, ` +
    `call ${kit.count(row.first.call)}`;
  kit.table("why-causes", `${kit.counted(why.count, "call")} did not replay`, [
    {label: "Program", text: (row) => row.program},
    {label: "Reason", text: (row) => row.reason.replaceAll("_", " ")},
    {label: "Calls", number: true, text: (row) => kit.count(row.count),
      cell: (row) => kit.spark(row.count / why.causes[0].count)},
    {label: "First", text: first},
    {label: "What to do", text: (row) => row.advice},
  ], why.causes);

  if (why.failures.length > 0) {
    find("why-failures").append(make("h3", {}, "Recordings that failed"),
      make("div", {className: "scroll", id: "why-failed"}));
    const failed = why.failures.reduce((sum, row) => sum + row.count, 0);
    kit.table("why-failed", kit.counted(failed, "recording"), [
      {label: "Program", text: (row) => row.program},
      {label: "Bucket", text: (row) => row.bucket_name},
      {label: "Failed", number: true, text: (row) => kit.count(row.count)},
      {label: "First", text: (row) => kit.time(row.first_ns)},
      {label: "Because", text: (row) =>
        `${[row.driver_call, row.code].filter(Boolean).join(" ")}: ${row.message}`},
    ], why.failures);
  }
  kit.table("why-calls", `The first ${kit.count(why.calls.length)} of ${kit.count(why.count)}`, [
    {label: "Time", text: (row) => kit.time(row.time_ns)},
    {label: "Lane", number: true, text: (row) => String(row.lane)},
    {label: "Call", number: true, text: (row) => kit.count(row.call)},
    {label: "Bucket", text: (row) => row.bucket_name},
    {label: "Ran as", text: (row) => row.path.replaceAll("_", " ")},
    {label: "Reason", text: (row) => row.reason.replaceAll("_", " ")},
  ], why.calls);
});
