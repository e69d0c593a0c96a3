"use strict";

// Rectangles over two linear axes, as a kind of chart that Chart.js has not: {left, right, low,
// high, fill, rim?} each, in units of the axes. Memory maps and timelines are made of them.

const boxes = (() => {
  const pixelsMin = 1;  // What is there is seen.

  class Box extends Chart.Element {
    draw(context) {
      context.fillStyle = this.fill;
      context.fillRect(this.x, this.y, this.width, this.height);
      const rim = this.active ? kit.colour("ink") : this.rim;
      if (!rim) return;
      context.strokeStyle = rim;
      context.lineWidth = this.active ? 2 : 1;
      context.strokeRect(this.x + 0.5, this.y + 0.5, Math.max(this.width - 1, 0.5),
        Math.max(this.height - 1, 0.5));
    }
    inRange(x, y) {
      return x >= this.x - 1 && x <= this.x + this.width + 1 && y >= this.y &&
        y <= this.y + this.height;
    }
    getCenterPoint() {
      return {x: this.x + this.width / 2, y: this.y + this.height / 2};
    }
    tooltipPosition() {
      const {left, right} = this.$area ?? {left: -Infinity, right: Infinity};
      const x = (Math.max(this.x, left) + Math.min(this.x + this.width, right)) / 2;
      return {x, y: this.y + this.height / 2};
    }
  }
  Box.id = "box";
  Box.defaults = {};

  class Boxes extends Chart.DatasetController {
    update(mode) {
      this.updateElements(this._cachedMeta.data, 0, this._cachedMeta.data.length, mode);
    }
    updateElements(elements, start, count) {
      const {xScale, yScale} = this._cachedMeta;
      const data = this.getDataset().data;
      for (let i = start; i < start + count; ++i) {
        const one = data[i];
        const x = Math.round(xScale.getPixelForValue(one.left));
        const ends = [yScale.getPixelForValue(one.low), yScale.getPixelForValue(one.high)];
        const y = Math.min(...ends);
        Object.assign(elements[i], {
          x, y, fill: one.fill, rim: one.rim, $area: this.chart.chartArea,
          width: Math.max(Math.round(xScale.getPixelForValue(one.right)) - x, pixelsMin),
          height: Math.max(Math.abs(ends[1] - ends[0]), pixelsMin),
        });
      }
    }
    getMinMax() { return {min: 0, max: 1}; }
    getLabelAndValue() { return {label: "", value: ""}; }
  }
  Boxes.id = "boxes";
  Boxes.defaults = {datasetElementType: false, dataElementType: "box"};

  Chart.register(Box, Boxes);

  // What the pointer is on: the topmost box.
  Chart.Interaction.modes.topmost = (chart, event) => {
    const at = Chart.helpers ? Chart.helpers.getRelativePosition(event, chart) : event;
    for (let datasetIndex = chart.data.datasets.length - 1; datasetIndex >= 0; --datasetIndex) {
      const meta = chart.getDatasetMeta(datasetIndex);
      if (meta.hidden || meta.type !== "boxes") continue;
      for (let index = meta.data.length - 1; index >= 0; --index) {
        if (meta.data[index].inRange(at.x, at.y))
          return [{element: meta.data[index], datasetIndex, index}];
      }
    }
    return [];
  };

  // Options of a chart of boxes. `describe(box)` returns lines; `pin(box)` is for a click.
  function options(describe, pin, x, y) {
    return {
      scales: {x, y},
      interaction: {mode: "topmost"},
      onClick: (event, active, chart) => {
        if (active.length) pin(chart.data.datasets[active[0].datasetIndex].data[active[0].index]);
      },
      plugins: {
        tooltip: {
          displayColors: false,
          callbacks: {
            title: (items) => items.length ? describe(items[0].raw)[0] : "",
            label: (item) => describe(item.raw).slice(1),
          },
        },
      },
    };
  }

  function activate(chart, place) {
    const element = chart.getDatasetMeta(0).data[place];
    const active = [{datasetIndex: 0, index: place}];
    chart.setActiveElements(active);
    chart.tooltip.setActiveElements(active, element.tooltipPosition());
    chart.update("none");
  }

  // The nearest box that way; what lies beside the way counts double.
  function next(elements, from, across, up) {
    const start = elements[from].getCenterPoint();
    let best = from;
    let least = Infinity;
    elements.forEach((element, place) => {
      const centre = element.getCenterPoint();
      const along = (centre.x - start.x) * across + (centre.y - start.y) * up;
      const beside = Math.abs((centre.x - start.x) * up) + Math.abs((centre.y - start.y) * across);
      if (place === from || along <= 0.5 || along + 2 * beside >= least) return;
      least = along + 2 * beside;
      best = place;
    });
    return best;
  }

  // Arrows go from box to box, Enter pins, Escape leaves.
  function keys(describe, pin) {
    const ways = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    return (event, one) => {
      const elements = one.drawn.getDatasetMeta(0).data;
      if (elements.length === 0) return;
      const data = one.drawn.data.datasets[0].data;
      const here = one.place !== undefined && one.place < elements.length ? one.place : -1;
      let place = here;
      if (event.key in ways) place = here < 0 ? 0 : next(elements, here, ...ways[event.key]);
      else if (event.key === "Home") place = 0;
      else if (event.key === "End") place = elements.length - 1;
      else if (event.key === "Enter" && here >= 0) pin(data[here]);
      else if (event.key === "Escape") pin(null);
      else return;
      event.preventDefault();
      if (place < 0) return;
      one.place = place;
      activate(one.drawn, place);
      kit.say(describe(data[place]).join("; "));
    };
  }

  // Fills the box below a chart with what was pinned, or hides it.
  function showPinned(id, lines, ...more) {
    const box = kit.find(id);
    box.hidden = lines === null;
    if (lines === null) return;
    box.replaceChildren(
      kit.make("div", {}, kit.make("strong", {}, lines[0]),
        kit.make("ul", {}, ...lines.slice(1).map((line) => kit.make("li", {}, line))), ...more),
      kit.button("Unpin", () => { box.hidden = true; }));
  }

  return {options, keys, showPinned};
})();
