"use strict";

// Which graphs read what which graphs made, as a tree; a loop ends where it comes back.

kit.view("paths", () => {
  const {report, make, find} = kit;
  const {graphs, reads} = report.paths;
  const siblingsMax = 8;  // The rest is folded.
  const itemsMax = 1500;  // Of the tree; graphs that many others read are below each of them.
  if (graphs.length === 0) {
    kit.empty("paths-tree", "No graph was recorded, so there is no path.");
    return;
  }

  const children = graphs.map(() => []);
  for (const [maker, reader, times] of reads) if (maker >= 0) children[maker].push([reader, times]);
  for (const list of children) list.sort((a, b) => b[1] - a[1]);
  const fromEager = new Map(reads.filter(([maker]) => maker < 0)
    .map(([, reader, times]) => [reader, times]));
  let made = 0;

  function factsOf(graph, place, times) {
    const facts = [`node ${graph.node}`, kit.counted(graph.replays, "replay")];
    if (times > 0) facts.push(`reads it ${kit.counted(times, "time")}`);
    if (fromEager.has(place))
      facts.push(`reads runs without a graph ${kit.counted(fromEager.get(place), "time")}`);
    if (graph.around_bytes > 0) facts.push(`goes around ${kit.bytes(graph.around_bytes)}`);
    if (graph.leases > 0) {
      facts.push(`kept alive ${kit.counted(graph.leases, "time")}: ` +
        `${kit.bytes(graph.output_bytes)} for ${kit.time(graph.kept_ns)} in all, ` +
        `${kit.time(graph.longest_ns)} the longest`);
    } else {
      facts.push(`outputs of ${kit.bytes(graph.output_bytes)}, never kept`);
    }
    return facts.join(", ");
  }

  function line(place, times, back) {
    const graph = graphs[place];
    return [make("strong", {}, graph.name), " ",
      make("span", {className: "facts"}, back ? `back to node ${graph.node}, ` +
        `${kit.counted(times, "time")}` : factsOf(graph, place, times))];
  }

  function item(place, times, above) {
    ++made;
    const back = above.includes(place);
    const below = back || made > itemsMax ? [] : children[place];
    if (below.length === 0)
      return make("li", {}, make("div", {className: "leafless"}, ...line(place, times, back)));
    const items = below.map(([child, read]) => item(child, read, [...above, place]));
    const more = items.splice(siblingsMax);
    const list = make("ul", {}, ...items, more.length === 0 ? null
      : make("li", {}, make("details", {}, make("summary", {}, `${more.length} more`),
        make("ul", {}, ...more))));
    return make("li", {}, make("details", {open: above.length < 2},
      make("summary", {}, ...line(place, times, back)), list));
  }

  // A loop has no beginning of its own: its first graph stands for one.
  function rootsOf() {
    const seen = new Set();
    const visit = (place) => {
      const stack = [place];
      while (stack.length > 0) {
        const at = stack.pop();
        if (seen.has(at)) continue;
        seen.add(at);
        for (const [child] of children[at]) stack.push(child);
      }
    };
    const roots = [];
    graphs.forEach((graph, place) => {
      if (!graph.root) return;
      roots.push(place);
      visit(place);
    });
    graphs.forEach((graph, place) => {
      if (seen.has(place)) return;
      roots.push(place);
      visit(place);
    });
    return roots;
  }

  const state = {all: false};
  function draw() {
    made = 0;
    const roots = rootsOf();
    const chained = roots.filter((place) => children[place].length > 0 ||
      graphs[place].leases > 0 || graphs[place].around_bytes > 0);
    const shown = state.all ? roots : chained;
    const parts = [make("p", {className: "facts"}, chained.length === 0
      ? "No call read another’s outputs where they lie; there are no paths among " +
        `${kit.counted(roots.length, "graph")}.`
      : `${kit.counted(chained.length, "path")} of several calls or with outputs that were kept, ` +
        `out of ${kit.counted(roots.length, "root")}.`)];
    const byLane = new Map();
    for (const place of shown) {
      const {lane} = graphs[place];
      byLane.set(lane, [...(byLane.get(lane) ?? []), place]);
    }
    for (const [lane, places] of [...byLane].sort((a, b) => a[0] - b[0])) {
      parts.push(make("h3", {}, `Lane ${lane}`),
        make("ul", {}, ...places.slice(0, itemsMax).map((place) => item(place, 0, []))));
    }
    if (made > itemsMax) parts.push(make("p", {className: "facts"}, "Deeper paths are left out."));
    find("paths-tree").replaceChildren(...parts);
    find("paths-controls").replaceChildren(...(chained.length < roots.length
      ? [kit.button(state.all ? "Only paths" : "Show all graphs", () => {
        state.all = !state.all;
        draw();
      })] : []));
  }
  draw();
});
