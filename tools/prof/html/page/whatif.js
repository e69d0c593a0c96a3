"use strict";

// Figures of the same calls under changes: a ladder of changes, a slider over its steps.

kit.view("what-if", () => {
  const {report, find, make} = kit;
  const {ladders, outcomes, differences, gaps} = report.what_if;
  const before = outcomes[0].figures;
  let ladder = ladders[0];
  let place = 0;

  const outcomeOf = (step) => outcomes[step.outcome];
  const seconds = (value) => kit.time(Math.round(value));
  const points = (value) => `${value.toFixed(2)} points`;
  const row = (label, read, text, said = text) => ({label, read, text, said});
  const path = (name) => name.replace("_", "-");
  const rows = [
    row("plan height", (one) => one.height_bytes, kit.bytes),
    row("most mapped", (one) => one.total_peak_bytes, kit.bytes),
    row("mapped at the end", (one) => one.total_bytes, kit.bytes),
    row("graphs recorded", (one) => one.graphs_recorded, kit.count),
    row("graphs evicted", (one) => one.graphs_evicted, kit.count),
    row("padding", (one) => one.padded_share_pct, kit.percent, points),
    ...Object.keys(before.paths).map((name) =>
      row(`calls by ${path(name)}`, (one) => one.paths[name], kit.count)),
    row("calls refused", (one) => one.refused, kit.count),
    row("host time (estimate)", (one) => one.host_ns_estimate, seconds),
    row("of it for recordings (estimate)", (one) => one.record_ns_estimate, seconds),
    row("suspensions", (one) => one.suspensions, kit.count),
    row("time suspended", (one) => one.suspended_ns, seconds),
  ];
  // What no step of any ladder has is no row.
  const shown = rows.filter(({read}) =>
    outcomes.some((one) => one.figures && read(one.figures) !== 0));

  // "12 fewer", "1.2 MiB more (8.00 %)".
  function difference({read, said}, after) {
    const [was, is] = [read(before), read(after)];
    if (was === is) return "the same";
    const share = was > 0 && said !== points
      ? ` (${kit.percent(100 * Math.abs(is - was) / was)})` : "";
    const fewer = said === kit.count ? "fewer" : "less";
    return `${said(Math.abs(is - was))} ${is > was ? "more" : fewer}${share}`;
  }

  const kinds = {suspend: ["time suspended", "suspended_ns", seconds],
    policy: ["padding", "padded_share_pct", kit.percent]};
  const second = () => kinds[ladder.kind] || ["host time", "host_ns_estimate", seconds];

  function configure() {
    const [label, key, text] = second();
    const read = (name) => ladder.steps.map((step, x) =>
      ({x, y: outcomeOf(step).figures ? outcomeOf(step).figures[name] : NaN}));
    const line = (title, name, axis, colour, pointStyle) => ({
      label: title, type: "line", yAxisID: axis, data: read(name), borderWidth: 2, pointStyle,
      borderColor: kit.colour(colour), backgroundColor: kit.colour(colour), spanGaps: true,
      pointRadius: ({dataIndex}) => dataIndex === place ? 8 : 4,
    });
    const most = (name) => Math.max(...read(name).map(({y}) => y || 0), 1e-9) * 1.1;
    const names = (x) => ladder.steps[x] ? ladder.steps[x].label : "";
    return {
      type: "line",
      data: {datasets: [line("most mapped", "total_peak_bytes", "y", "kind-0", "circle"),
        line(label, key, "other", "kind-1", "rect")]},
      options: {
        interaction: {mode: "index", intersect: false},
        scales: {
          x: kit.axis({min: -0.5, max: ladder.steps.length - 0.5, format: names,
            grid: {display: false}, ticks: {autoSkip: true},
            afterBuildTicks: (axis) => {
              axis.ticks = ladder.steps.map((_, value) => ({value}));
            }}),
          y: kit.byteAxis(most("total_peak_bytes"), {title: "most mapped"}),
          other: kit.axis({min: 0, max: most(key), format: text, title: label, position: "right",
            grid: {display: false}}),
        },
        plugins: {tooltip: {callbacks: {
          title: (items) => items.length ? names(items[0].raw.x) : "",
          label: (item) => `${item.dataset.label}: ${
            item.datasetIndex === 0 ? kit.bytes(item.raw.y) : text(item.raw.y)}`,
        }}},
      },
    };
  }

  function estimatesOf(outcome) {
    const {figures, estimates, sizes, guessed_times, unknown_times, copy_out_bytes, first_refusal} =
      outcome;
    const lines = ["Host time is an estimate: each call counts the median host time of similar " +
      `calls in the trace${guessed_times > 0
        ? `; ${kit.counted(guessed_times, "call")} use the time of the nearest bucket` : ""}.`];
    if (unknown_times > 0)
      lines.push(`Host time leaves out ${kit.counted(unknown_times, "call")}, because no such call ` +
        "was timed.");
    if (figures.peak_bytes.graphs > 0)
      lines.push("The bytes of graphs are estimated from a table, and included in the mapped bytes.");
    lines.push(`Sizes of allocations: ${kit.count(sizes.recorded)} recorded, ` +
      `${kit.count(sizes.computed)} computed from recorded buckets, ` +
      `${kit.count(sizes.guessed)} guessed.`);
    if (figures.suspensions > 0)
      lines.push("The times do not include suspending and mapping again.");
    if (copy_out_bytes > 0)
      lines.push(`Copied outputs take ${kit.bytes(copy_out_bytes)} per lane (copy_out_bytes).`);
    if (first_refusal) lines.push(`The first call that is refused: ${first_refusal}`);
    if (differences.length > 0)
      lines.push("The trace cannot be repeated exactly, so both columns come from " +
        `repetitions: ${differences.join("; ")}${gaps.length > 0
          ? `, because ${gaps.join("; ")}` : ""}.`);
    return [...lines, ...estimates];
  }

  const slider = make("input", {type: "range", min: 0, step: 1, id: "what-if-step"});
  const output = make("output", {htmlFor: "what-if-step", id: "what-if-label"});
  const words = find("what-if-words");
  let chart = null;

  function show() {
    const step = ladder.steps[place];
    const outcome = outcomeOf(step);
    const change = step.outcome > 0 ? `${ladder.label}: ${step.label}` : "Nothing is changed";
    slider.max = ladder.steps.length - 1;
    slider.value = place;
    slider.setAttribute("aria-valuetext", step.label);
    output.textContent = `${step.label} (${place + 1} of ${ladder.steps.length})`;
    const failed = !outcome.figures;
    for (const id of ["what-if-table", "what-if-estimates"]) find(id).hidden = failed;
    if (failed) {
      words.textContent = `${change}. This cannot be: ${outcome.error}`;
    } else {
      const after = outcome.figures;
      const say = (name, what) => {
        const one = rows.find(({label}) => label === name);
        return `${what} ${one.text(one.read(after))}, ${difference(one, after)}`;
      };
      words.textContent = `${change}. ${[say("most mapped", "Most mapped"),
        say("graphs recorded", "graphs recorded"), say("padding", "padding"),
        say("host time (estimate)", "host time, an estimate,")].join("; ")}.`;
      kit.table("what-if-table", `Before, and with ${step.change}`, [
        {label: "Figure", text: ({label}) => label},
        {label: "Before", number: true, text: ({read, text}) => text(read(before))},
        {label: "After", number: true, text: ({read, text}) => text(read(after))},
        {label: "Difference", text: (one) => difference(one, after)},
      ], shown);
      find("what-if-estimates").replaceChildren(
        ...estimatesOf(outcome).map((line) => make("li", {}, line)));
    }
    if (chart) chart.draw();
  }

  function showChart() {
    const [label] = second();
    const swatch = (colour) => {
      const made = make("span", {className: "swatch"});
      made.style.background = `var(--${colour})`;
      return made;
    };
    find("what-if-legend").replaceChildren(swatch("kind-0"), "most mapped (left)",
      swatch("kind-1"), `${label} (right)`);
    chart = kit.chart("what-if-chart",
      `Most mapped and ${label} over ${kit.counted(ladder.steps.length, "step")}: ` +
      ladder.steps.map((step) => outcomeOf(step).figures
        ? `${step.label} ${kit.bytes(outcomeOf(step).figures.total_peak_bytes)}`
        : `${step.label} failed`).join(", "), configure);
  }

  slider.addEventListener("input", () => {
    place = Number(slider.value);
    show();
  });
  find("what-if-controls").append(
    kit.choice("What is changed", ladders.map(({label}, i) => [String(i), label]), "0", (chosen) => {
      ladder = ladders[Number(chosen)];
      place = 0;
      showChart();
      show();
    }),
    make("label", {}, "How far", slider), output);
  showChart();
  show();
});
