"use strict";

// All buckets of a lane over one axis of addresses: which bytes are only theirs, which are shared.

const map = {
  // Buckets of the same lane, but this, whose plans use bytes of [begin, end).
  sharers(plan, begin, end) {
    return kit.report.map.plans.filter((other) => {
      if (other === plan || other.lane !== plan.lane) return false;
      for (let i = 0; i < other.used.length; i += 2)
        if (other.used[i] < end && other.used[i + 1] > begin) return true;
      return false;
    });
  },

  names(plans, most = 6) {
    const names = plans.slice(0, most).map((plan) => plan.name);
    if (plans.length > most) names.push(`${plans.length - most} more`);
    return names.join(", ");
  },

  life(steps) {
    const parts = [];
    for (let i = 0; i < steps.length; i += 2) parts.push(`[${steps[i]}, ${steps[i + 1]})`);
    return `steps ${parts.join(" ")}`;
  },

  // What a program calls a buffer comes first, where it calls it anything.
  role([place, , , output, , label]) {
    const role = output < 0 ? `buffer ${place}` : `output ${output} (buffer ${place})`;
    return label ? `${label}, ${role}` : role;
  },

  buffer(buffer) {
    const [, offset, size, , steps] = buffer;
    return `${map.role(buffer)}: ${kit.bytes(size)} at ${kit.bytes(offset)}, ${map.life(steps)}`;
  },
};

kit.view("map", () => {
  const {report, find} = kit;
  const rowsMax = 60;  // Of a page.
  const lanes = [...new Set(report.map.plans.map((plan) => plan.lane))].sort((a, b) => a - b);
  if (lanes.length === 0) {
    kit.empty("map-chart", "No graph was recorded, so no bytes were planned.");
    return;
  }
  const state = {lane: lanes[0], page: 0};

  const plansOf = (lane) => report.map.plans.filter((plan) => plan.lane === lane);
  const pages = () => Math.ceil(plansOf(state.lane).length / rowsMax);
  const rows = () => plansOf(state.lane)
    .sort((a, b) => b.height_bytes - a.height_bytes)
    .slice(state.page * rowsMax, (state.page + 1) * rowsMax);

  function pieces() {
    const alone = kit.colour("kind-0");
    const stripes = kit.striped(alone);
    const made = [];
    rows().forEach((plan, row) => {
      const ranges = (list, shared, fill) => {
        for (let i = 0; i < list.length; i += 2) {
          made.push({left: list[i], right: list[i + 1], low: row + 0.12, high: row + 0.88, fill,
            rim: alone, plan, shared});
        }
      };
      ranges(sharedOf(plan), true, stripes);
      ranges(plan.exclusive, false, kit.faded(alone, 0.85));
    });
    return made;
  }

  // What is used but not exclusive; both lists are sorted.
  function sharedOf(plan) {
    const shared = [];
    let next = 0;
    for (let i = 0; i < plan.used.length; i += 2) {
      let from = plan.used[i];
      const end = plan.used[i + 1];
      for (; next < plan.exclusive.length && plan.exclusive[next] < end; next += 2) {
        if (plan.exclusive[next] > from) shared.push(from, plan.exclusive[next]);
        from = plan.exclusive[next + 1];
      }
      if (from < end) shared.push(from, end);
    }
    return shared;
  }

  function describe(piece) {
    const {plan, left, right} = piece;
    const others = map.sharers(plan, left, right);
    const inside = plan.buffers.filter(([, offset, size]) =>
      offset < right && offset + size > left);
    const largest = [...inside].sort((a, b) => b[2] - a[2]).slice(0, 4);
    return [
      `${plan.name}: ${kit.bytes(right - left)} at ${kit.bytes(left)}`,
      piece.shared ? `shared with ${map.names(others)}` : "only this bucket uses them",
      `${kit.counted(inside.length, "buffer")} in its highest plan, node ${plan.node}`,
      ...largest.map(map.buffer),
    ];
  }

  function pin(piece) {
    boxes.showPinned("map-pinned", piece && describe(piece), ...(piece
      ? [kit.make("p", {}, kit.make("a", {href: "#plan", onclick: () => plans.show(piece.plan)},
        `See the plan of ${piece.plan.name}`))] : []));
  }

  // The end of a name is what tells buckets of a program apart.
  function shortened(name) {
    const most = innerWidth < 700 ? 16 : 28;
    return name.length <= most ? name : `${name.slice(0, most - 7)}…${name.slice(-6)}`;
  }

  function configure() {
    const shown = rows();
    return {
      type: "boxes",
      data: {datasets: [{data: pieces()}]},
      options: boxes.options(describe, pin,
        kit.byteAxis(Math.max(report.map.lane_heights_bytes[state.lane], 1), {position: "top"}),
        kit.axis({min: 0, max: Math.max(shown.length, 1), reverse: true, grid: {display: false},
          afterBuildTicks: kit.rowTicks(shown.length),
          ticks: {autoSkip: false},
          format: (value) => shortened(shown[Math.floor(value)]?.name ?? "")})),
    };
  }

  function draw() {
    find("map-chart").style.height = `${rows().length * 24 + 56}px`;
    kit.chart("map-chart",
      `Bytes of lane ${state.lane} that each of ${kit.counted(rows().length, "bucket")} uses, up ` +
      `to ${kit.bytes(report.map.lane_heights_bytes[state.lane])}. Arrow keys go from stretch to ` +
      "stretch, Enter pins one.", configure, boxes.keys(describe, pin));
    controls();
  }

  function controls() {
    const parts = [];
    if (lanes.length > 1) {
      parts.push(kit.choice("Lane", lanes.map((lane) => [String(lane), String(lane)]),
        String(state.lane), (value) => {
          Object.assign(state, {lane: Number(value), page: 0});
          draw();
        }));
    }
    if (pages() > 1) {
      const pageNames = Array.from({length: pages()}, (_, page) =>
        [String(page), `${page * rowsMax + 1} to ${(page + 1) * rowsMax}`]);
      parts.push(kit.choice("Buckets by height", pageNames, String(state.page), (value) => {
        state.page = Number(value);
        draw();
      }));
    }
    find("map-controls").replaceChildren(...parts);
  }

  draw();
});
