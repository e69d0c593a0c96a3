"use strict";

// What all views share: the report, elements, figures as people read them, colours, charts, tables.
//
// Texts of a trace reach the page as text nodes only; nothing here takes HTML.

const kit = (() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const views = [];
  const charts = [];
  const find = (id) => document.getElementById(id);

  // An element with these properties; null children are left out.
  function make(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.includes("-") || name === "role") made.setAttribute(name, value);
      else made[name] = value;
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
  const count = (value) => whole.format(value);
  const counted = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
  const percent = (value) => `${value.toFixed(value > 0 && value < 10 ? 2 : 1)} %`;

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    let number = value;
    while (Math.abs(number) >= 1024 && unit < units.length - 1) {
      number /= 1024;
      ++unit;
    }
    const digits = Number.isInteger(number) || unit === 0 ? 0 : number < 10 ? 2 : 1;
    return `${number.toFixed(digits)} ${units[unit]}`;
  }

  function time(ns) {
    if (ns === 0) return "0 s";
    const size = Math.abs(ns);
    if (size < 1e3) return `${ns} ns`;
    if (size < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
    if (size < 1e9) return `${Number((ns / 1e6).toPrecision(4))} ms`;
    return `${Number((ns / 1e9).toPrecision(5))} s`;
  }

  // The value of a variable of the stylesheet, which depends on the theme.
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // `colour` so opaque, of "#rrggbb".
  const faded = (hex, share) =>
    hex + Math.round(share * 255).toString(16).padStart(2, "0");

  // Stripes, which tell shared bytes from others without colour.
  function striped(hex) {
    const tile = make("canvas", {width: 8, height: 8});
    const context = tile.getContext("2d");
    context.fillStyle = faded(hex, 0.22);
    context.fillRect(0, 0, 8, 8);
    context.strokeStyle = faded(hex, 0.75);
    context.lineWidth = 1.2;
    for (const shift of [-8, 0, 8]) {
      context.beginPath();
      context.moveTo(shift, 8);
      context.lineTo(shift + 8, 0);
      context.stroke();
    }
    return context.createPattern(tile, "repeat");
  }

  let saying = null;
  function say(text) {
    clearTimeout(saying);
    saying = setTimeout(() => { find("said").textContent = text; }, 120);
  }

  // Steps of a power of two, so that labels of bytes are round.
  function byteTicks(axis) {
    let step = 1;
    while ((axis.max - axis.min) / step > 8) step *= 2;
    axis.ticks = [];
    for (let value = 0; value <= axis.max; value += step) axis.ticks.push({value});
  }

  // A label for every row of a chart whose rows are [0, 1), [1, 2) and so on.
  function rowTicks(count) {
    return (axis) => {
      axis.ticks = Array.from({length: count}, (_, row) => ({value: row + 0.5}));
    };
  }

  function byteAxis(max, more = {}) {
    return axis({min: 0, max, afterBuildTicks: byteTicks, format: bytes, ...more});
  }

  function axis({format, title, position, ...more}) {
    return {
      type: "linear",
      position,
      ...more,
      grid: {color: colour("grid"), drawBorder: false, ...more.grid},
      title: {display: Boolean(title), text: title, color: colour("soft")},
      ticks: {color: colour("soft"), callback: format, maxRotation: 0, ...more.ticks},
    };
  }

  // A chart that is made anew where colours change. `configure()` returns what Chart.js takes;
  // `label` says what it shows to who cannot see it.
  function chart(id, label, configure, keys = () => {}) {
    const box = find(id);
    const canvas = make("canvas", {tabIndex: 0, role: "img", "aria-label": label});
    box.replaceChildren(canvas);
    const one = {box, canvas, drawn: null};
    one.draw = () => {
      if (one.drawn) one.drawn.destroy();
      const config = configure();
      config.options = {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        normalized: true, ...config.options,
      };
      config.options.plugins = {
        legend: {display: false}, ...config.options.plugins,
        tooltip: {
          backgroundColor: colour("ink"), titleColor: colour("card"), bodyColor: colour("card"),
          padding: 9, cornerRadius: 4, boxPadding: 4, ...config.options.plugins?.tooltip,
        },
      };
      one.drawn = new Chart(canvas, config);
    };
    one.draw();
    canvas.addEventListener("keydown", (event) => keys(event, one));
    for (let i = charts.length - 1; i >= 0; --i) if (charts[i].box === box) charts.splice(i, 1);
    charts.push(one);
    return one;
  }

  function redraw() {
    Chart.defaults.color = colour("soft");
    for (const one of charts) one.draw();
  }

  // Columns are {label, text(row), number?, cell?(row)}; `cell` makes an element beside the text.
  function table(id, caption, columns, rows) {
    const head = make("tr", {}, ...columns.map((column) =>
      make("th", {scope: "col", className: column.number ? "number" : ""}, column.label)));
    const body = rows.map((row) => make("tr", {}, ...columns.map((column, place) =>
      make(place === 0 ? "th" : "td",
        {className: column.number ? "number" : "", ...(place === 0 ? {scope: "row"} : {})},
        column.text ? column.text(row) : null, column.cell ? column.cell(row) : null))));
    const box = find(id);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", caption);
    box.replaceChildren(make("table", {}, make("caption", {}, caption),
      make("thead", {}, head), make("tbody", {}, ...body)));
  }

  // A share of the largest, as a bar below a figure.
  function spark(share, kind = "") {
    const bar = make("span");
    bar.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
    return make("span", {className: `spark ${kind}`, "aria-hidden": "true"}, bar);
  }

  function choice(label, options, chosen, change) {
    const select = make("select", {}, ...options.map(([value, text]) =>
      make("option", {value, selected: value === chosen}, text)));
    select.addEventListener("change", () => change(select.value));
    return make("label", {}, label, select);
  }

  function button(label, press) {
    const made = make("button", {type: "button"}, label);
    made.addEventListener("click", press);
    return made;
  }

  // Buttons that show and hide; each is {label, colour, on}, with `colour` a variable's name.
  function legend(entries, change) {
    return make("div", {className: "legend", role: "group", "aria-label": "What is shown"},
      ...entries.map((entry) => {
        const swatch = make("span", {className: "swatch"});
        swatch.style.background = `var(--${entry.colour})`;
        const made = make("button", {type: "button", "aria-pressed": String(entry.on)}, swatch,
          entry.label);
        made.addEventListener("click", () => {
          entry.on = !entry.on;
          made.setAttribute("aria-pressed", String(entry.on));
          change();
        });
        return made;
      }));
  }

  // A view without anything to show says so, and has no table to unfold.
  function empty(id, text) {
    find(id).replaceChildren(make("p", {className: "empty"}, text));
    find(id).style.height = "auto";
    for (const one of find(id).parentElement.querySelectorAll("details")) one.hidden = true;
  }

  const view = (name, draw) => views.push({name, draw});

  return {
    report, views, find, make, count, counted, percent, bytes, time, colour, faded, striped, say,
    axis, byteAxis, chart, redraw, table, spark, choice, button, legend, empty,
    view, rowTicks,
  };
})();
