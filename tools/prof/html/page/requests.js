"use strict";

// Requests of a server: time to the first token, time per further token.

kit.view("requests", () => {
  const {report, find} = kit;
  const {requests} = report;
  if (requests.count === 0) {
    kit.empty("requests-chart",
              "The application reported no requests (Session::trace().NoteRequest).");
    return;
  }
  const rows = [
    {...requests.first_token, label: "first token", colour: "kind-0", on: true},
    {...requests.per_output_token, label: "per further token", colour: "kind-1", on: true},
  ].filter((row) => row.count > 0);
  const one = durations.chart("requests",
    `Times to the first token of ${kit.counted(requests.count, "request")}, and per further token.`,
    rows);
  find("requests-controls").classList.add("legend-only");
  find("requests-controls").append(kit.legend(rows, one.draw));
  kit.table("requests-table", kit.counted(requests.count, "request"), durations.columns("Time"),
    rows);

  const perToken = ([, , first, last, , written]) => written > 1
    ? (last - first) / (written - 1) : -1;
  kit.sortable("requests-rows", {
    label: "Requests one by one", key: "first", rows: requests.rows.map((row) => ({
      id: row[0], at: row[1], first: row[2], last: row[3], read: row[4], written: row[5],
      token: perToken(row),
    })),
    caption: (shown) => `${kit.count(shown)} of ${kit.counted(requests.count, "request")}`,
    columns: [
      {label: "Request", key: "id", number: true, text: (row) => String(row.id)},
      {label: "Noted at", key: "at", number: true, text: (row) => kit.time(row.at)},
      {label: "First token", key: "first", number: true, text: (row) => kit.time(row.first)},
      {label: "Last token", key: "last", number: true, text: (row) => kit.time(row.last)},
      {label: "Per further token", key: "token", number: true,
        text: (row) => row.token < 0 ? "" : kit.time(Math.round(row.token))},
      {label: "Tokens read", key: "read", number: true, text: (row) => kit.count(row.read)},
      {label: "Tokens written", key: "written", number: true,
        text: (row) => kit.count(row.written)},
    ],
  });
});
