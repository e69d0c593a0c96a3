"use strict";

// The session in figures, and the findings in words.

kit.view("overview", () => {
  const {report, make, find} = kit;
  const {session, summary} = report;

  const headline = [
    `On ${session.device}, ${kit.time(session.last_ns)}`,
    kit.counted(session.lanes, "lane"),
    kit.counted(report.programs.length, "program"),
    kit.counted(session.events, "event"),
  ];
  find("session").textContent = `${headline.join(", ")}.`;

  function tile(title, value, note) {
    return make("div", {}, make("dt", {}, title), make("dd", {}, value),
      make("dd", {className: "note"}, note));
  }

  const share = (part, all) => all > 0 ? 100 * part / all : 0;
  const {paths, calls} = summary;
  const budget = session.budget_bytes;
  const statics = report.memory.statics.peak_bytes;
  find("overview-tiles").append(
    tile("Calls", kit.count(calls),
      `${kit.count(paths.record)} recorded, ${kit.count(paths.warm_up)} warmed up`),
    tile("Replayed", kit.percent(share(paths.replay, calls)), `${kit.count(paths.replay)} calls`),
    tile("Eager", kit.count(paths.eager), `${kit.percent(share(paths.eager, calls))} of the calls` +
      `; with warm-ups ${kit.count(paths.eager + paths.warm_up)} ran without a graph`),
    tile("Padding", kit.percent(summary.padded_share_pct), "of the staged elements" + (
      summary.exact_replays > 0 ? `; ${kit.count(summary.exact_replays)} replays at exact sizes`
        : "")),
    tile("Peak", kit.bytes(summary.total_peak_bytes), (budget > 0
      ? `${kit.percent(share(summary.total_peak_bytes, budget))} of ${kit.bytes(budget)}`
      : "no budget is set") + (statics > 0 ? `; plus ${kit.bytes(statics)} of statics` : "")),
    tile("Graphs", kit.count(summary.graphs_recorded),
      `${kit.count(summary.graphs_evicted)} evicted, ${kit.counted(summary.buckets, "bucket")}` + (
        summary.executables < summary.graphs_recorded
          ? `, ${kit.counted(summary.executables, "executable")}` : "")));

  const words = {high: "Costly", medium: "Look at", low: "Minor", good: "Good"};
  const names = {
    buckets: "Buckets", why: "Why", memory: "Memory", timeline: "Timeline", map: "Map",
  };
  // A few small ones may stand with the rest; many would hide it.
  const minor = report.findings.filter((finding) => finding.level === "low");
  const folded = minor.length > 3;
  find("overview-minor").hidden = !folded;
  find("overview-minor").querySelector("summary").textContent =
    `${minor.length} minor things that could be better`;
  for (const finding of report.findings) {
    const place = folded && finding.level === "low" ? "overview-minor-findings"
      : "overview-findings";
    find(place).append(make("li", {},
      make("span", {className: `level ${finding.level}`}, words[finding.level]),
      make("div", {}, make("h4", {}, finding.title),
        make("p", {className: "what"}, finding.what),
        make("p", {}, finding.advice, " ",
          make("a", {href: `#${finding.view}`}, `See ${names[finding.view]}`)))));
  }

  find("overview-what-if").append(...report.what_if
    ? ["What other settings would have changed: ",
      make("a", {href: "#what-if"}, "see What if"), "."]
    : ["What other settings would have changed: ",
      make("code", {}, "coppice prof html TRACE --what-if"), " adds a view of it."]);

  if (session.dropped_events > 0 || !session.ended) {
    find("gaps").hidden = false;
    find("gaps").textContent = session.dropped_events > 0
      ? `${kit.counted(session.dropped_events, "event")} were lost, so counts are too low.`
      : "This trace has no end: the session was still running, or ended abnormally.";
  }

  const what = {
    calls: "calls of the timeline", memory: "changes of bytes", moments: "marks over memory",
    buckets: "buckets", buffers: "buffers of plans", listed: "calls that did not replay",
    graphs: "graphs of paths", kernels: "graphs with their kernels", requests: "requests",
    what_if_policies: "sizes whose padding is changed",
  };
  const kept = Object.entries(report.limits).map(([name, {shown, of}]) =>
    `${kit.count(shown)} of ${kit.count(of)} ${what[name]}`);
  find("limits").textContent = kept.length === 0
    ? "Nothing of the trace was left out."
    : `The page shows a sample: ${kept.join("; ")}. Figures and tables of sums count everything.`;
});
