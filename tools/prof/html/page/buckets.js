"use strict";

// The table of buckets: sorted by any column, filtered by name.

kit.view("buckets", () => {
  const {report, make, find} = kit;
  const all = report.buckets;
  if (all.length === 0) {
    kit.empty("buckets-table", "The trace has no bucket.");
    return;
  }

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

  let filter = "";
  const draw = kit.sortable("buckets-table", {
    label: "Buckets", columns, rows: all, key: "calls", more: activity,
    moreLabel: "Calls over time", keep: (row) => row.name.includes(filter),
    caption: (shown) => `${kit.count(shown)} of ${kit.counted(all.length, "bucket")}; ` +
      "* executable graphs in the driver (estimated)",
  });
  find("buckets-controls").append(kit.search("Name contains", (text) => {
    filter = text;
    draw();
  }));
});
