"use strict";

// One bucket's highest plan: steps across, addresses up, a block per buffer.

const plans = {show() {}};

kit.view("plan", () => {
  const {report, find} = kit;
  const all = [...report.map.plans].filter((plan) => plan.buffers.length > 0)
    .sort((a, b) => b.height_bytes - a.height_bytes);
  if (all.length === 0) {
    kit.empty("plan-chart", "No graph has a plan with buffers.");
    return;
  }
  let plan = all[0];

  function blocks() {
    const made = [];
    const grey = kit.striped(kit.colour("kind-6"));
    for (let i = 0; i < plan.around.length; i += 2) {
      made.push({left: 0, right: plan.steps, low: plan.around[i], high: plan.around[i + 1],
        fill: grey, around: true});
    }
    for (const [offset, size, upper] of plan.donated) {
      made.push({left: 0, right: upper, low: offset, high: offset + size, fill: grey, given: true});
    }
    for (const buffer of plan.buffers) {
      const [place, offset, size, output, steps] = buffer;
      const colour = kit.colour(`kind-${[0, 2, 4, 5, 7, 8, 9, 3][place % 8]}`);
      for (let i = 0; i < steps.length; i += 2) {
        made.push({left: steps[i], right: steps[i + 1], low: offset, high: offset + size, buffer,
          fill: kit.faded(colour, output < 0 ? 0.6 : 0.95),
          rim: output < 0 ? kit.colour("card") : kit.colour("ink")});
      }
    }
    return made;
  }

  function describe(block) {
    const range = `${kit.bytes(block.high - block.low)} at ${kit.bytes(block.low)}`;
    if (block.around) return ["Live outputs of other calls", range, "the plan goes around them"];
    if (block.given) return ["An input that the call gives away", range,
      `free from step ${block.right} on`];
    const steps = block.buffer[4];
    const same = plan.buffers.filter((other) => other !== block.buffer &&
      other[1] < block.high && other[1] + other[2] > block.low);
    const others = map.sharers(plan, block.low, block.high);
    return [
      map.role(block.buffer).replace(/^./, (letter) => letter.toUpperCase()),
      range,
      `lives for ${map.life(steps)}`,
      same.length > 0
        ? `its bytes also hold buffers ${same.slice(0, 8).map((other) => other[0]).join(", ")}` +
          `${same.length > 8 ? ` and ${same.length - 8} more` : ""} at other steps`
        : "no other buffer of the plan uses its bytes",
      others.length > 0 ? `shared with ${map.names(others)}` : "only this bucket uses them",
    ];
  }

  const pin = (block) => boxes.showPinned("plan-pinned", block && describe(block));

  // The most that any plan needs at once, as a line.
  const bound = {
    id: "bound",
    afterDatasetsDraw(chart) {
      const y = chart.scales.y.getPixelForValue(plan.bound_bytes);
      const {left, right} = chart.chartArea;
      chart.ctx.save();
      chart.ctx.strokeStyle = kit.colour("high");
      chart.ctx.setLineDash([7, 4]);
      chart.ctx.lineWidth = 1.5;
      chart.ctx.beginPath();
      chart.ctx.moveTo(left, y);
      chart.ctx.lineTo(right, y);
      chart.ctx.stroke();
      chart.ctx.restore();
    },
  };

  function configure() {
    return {
      type: "boxes",
      data: {datasets: [{data: blocks()}]},
      plugins: [bound],
      options: boxes.options(describe, pin,
        kit.axis({min: 0, max: plan.steps, title: "step", grid: {display: false},
          ticks: {precision: 0, maxTicksLimit: 16}, format: (value) => String(value)}),
        kit.byteAxis(Math.max(plan.height_bytes, plan.bound_bytes, 1) * 1.02,
          {title: "address; dashed: most bytes live at once"})),
    };
  }

  function draw() {
    pin(null);
    kit.chart("plan-chart",
      `Plan of ${plan.name}: ${kit.counted(plan.buffer_count, "buffer")} over ` +
      `${kit.counted(plan.steps, "step")}, ${kit.bytes(plan.height_bytes)} high, ` +
      `${kit.bytes(plan.bound_bytes)} live at once. Arrow keys go from buffer to buffer, Enter ` +
      "pins one.", configure, boxes.keys(describe, pin));
    find("plan-controls").replaceChildren(
      kit.choice("Bucket",
        all.map((one, place) => [String(place), `${one.name}, lane ${one.lane}`]),
        String(all.indexOf(plan)), (value) => plans.show(all[Number(value)])),
      kit.make("span", {className: "facts"},
        `node ${plan.node}, planned by ${plan.method}, ${kit.bytes(plan.height_bytes)} for ` +
        `${kit.bytes(plan.bound_bytes)} live at once`));
    kit.table("plan-table", `Buffers of ${plan.name}`, [
      {label: "Buffer", text: (buffer) => String(buffer[0])},
      ...(plan.buffers.some((buffer) => buffer[5])
        ? [{label: "Name", text: (buffer) => buffer[5] ?? ""}] : []),
      {label: "Output", text: (buffer) => buffer[3] < 0 ? "" : String(buffer[3])},
      {label: "Offset", number: true, text: (buffer) => kit.count(buffer[1])},
      {label: "Bytes", number: true, text: (buffer) => kit.count(buffer[2])},
      {label: "Life", text: (buffer) => map.life(buffer[4])},
    ], plan.buffers.slice(0, 400));
  }

  plans.show = (chosen) => {
    plan = all.find((one) => one.bucket === chosen.bucket) ?? plan;
    draw();
  };
  draw();
});
