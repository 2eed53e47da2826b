"use strict";

// Charts: the values are read back from the drawn points, so that the page carries them once.
const LEFT = 42, RIGHT = 352, TOP = 8, BOTTOM = 154;  // as in scale.py

function chartOf(figure) {
  const svg = figure.querySelector("svg.chart");
  const numbers = (name) => svg.dataset[name].split(" ").map(Number);
  const lines = [...svg.querySelectorAll("polyline:not(.mean)")].map((line) =>
    line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)));
  const labels = [...figure.querySelectorAll(".legend b")];
  return {
    svg, lines, labels, x: numbers("x"), y: numbers("y"), cross: svg.querySelector(".cross"),
    kind: svg.dataset.kind, unit: svg.dataset.unit, last: labels.map((label) => label.textContent),
  };
}

function short(value, unit) {
  if (unit === "%") return `${Number((100 * value).toPrecision(3))}%`;
  const size = Math.abs(value);
  const power = size >= 1e4 ? Math.min(Math.floor(Math.log10(size) / 3), 4) : 0;
  let text = String(Number((value / 1000 ** power).toPrecision(3)));
  if (size && size < 1e-3) text = value.toExponential(2).replace(/\.?0+e/, "e");
  return text + ["", "k", "M", "B", "T"][power] + (unit === "s" ? " s" : "");
}

function valueAt(chart, pixel) {
  const share = (BOTTOM - pixel) / (BOTTOM - TOP);
  const [lo, hi] = chart.y;
  return chart.kind === "log" ? lo * (hi / lo) ** share : lo + (hi - lo) * share;
}

function show(chart, x) {
  const [first, last] = chart.x;
  const at = LEFT + (RIGHT - LEFT) * (x - first) / (last - first);
  chart.cross.setAttribute("d", `M${at} ${TOP}V${BOTTOM}`);
  let below = 0;
  chart.lines.forEach((points, i) => {
    const near = points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
    const value = valueAt(chart, near[1]);
    chart.labels[i].textContent = short(chart.kind === "stacked" ? Math.max(0, value - below) : value, chart.unit);
    below = value;
  });
}

function clear(chart) {
  chart.cross.setAttribute("d", "");
  chart.labels.forEach((label, i) => { label.textContent = chart.last[i]; });
}

function follow(charts, scrub) {
  const output = scrub && scrub.querySelector("output"), slider = scrub && scrub.querySelector("input");
  const read = (x) => {
    charts.forEach((chart) => show(chart, x));
    if (output) output.textContent = Math.round(x);
  };
  charts.forEach((chart) => {
    const [first, last] = chart.x;
    const move = (event) => {
      const box = chart.svg.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * 360 - LEFT) / (RIGHT - LEFT);
      const held = Math.min(1, Math.max(0, share));
      if (slider) slider.value = 1000 * held;
      read(first + (last - first) * held);
    };
    chart.svg.addEventListener("pointermove", move);
    chart.svg.addEventListener("pointerdown", move);
    chart.svg.addEventListener("pointerleave", () => {
      charts.forEach(clear);
      if (output) output.textContent = "last";
      if (slider) slider.value = 1000;
    });
  });
  if (slider && charts.length) {
    const [first, last] = charts[0].x;
    scrub.hidden = false;
    slider.addEventListener("input", () => read(first + (last - first) * slider.value / 1000));
  }
}

for (const stage of document.querySelectorAll(".stage")) {
  follow([...stage.querySelectorAll("figure[data-synced]")].map(chartOf), stage.querySelector(".scrub"));
  stage.querySelectorAll("figure:not([data-synced])").forEach((figure) => follow([chartOf(figure)], null));
}

// Galleries: filter by outcome, task and text; show a page at a time.
const PAGE = 12;

for (const gallery of document.querySelectorAll(".gallery")) {
  const items = [...gallery.querySelectorAll(".item")].map((node) => ({
    node, tags: node.dataset.tags.split(" "), task: node.dataset.task, text: node.textContent.toLowerCase(),
  }));
  const form = gallery.querySelector(".filters"), more = gallery.querySelector(".more");
  const select = form.querySelector("select"), search = form.querySelector("input");
  const buttons = [...form.querySelectorAll("button")];
  let room = PAGE;

  const update = () => {
    const tag = buttons.find((button) => button.getAttribute("aria-pressed") === "true").dataset.tag;
    const task = select ? select.value : "", words = search.value.toLowerCase();
    const found = items.filter((item) => (!tag || item.tags.includes(tag))
      && (!task || item.task === task) && (!words || item.text.includes(words)));
    const shown = new Set(found.slice(0, room));
    items.forEach((item) => { item.node.hidden = !shown.has(item); });
    more.hidden = found.length <= room;
    more.textContent = `Show ${Math.min(PAGE, found.length - room)} more of ${found.length}`;
    form.querySelector("output").textContent = `${found.length} ${found.length === 1 ? "prompt" : "prompts"}`;
  };
  const restart = () => { room = PAGE; update(); };

  buttons.forEach((button) => button.addEventListener("click", () => {
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    restart();
  }));
  if (select) select.addEventListener("change", restart);
  search.addEventListener("input", restart);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { room += PAGE; update(); });
  gallery.querySelectorAll(".zoom").forEach((button) => button.addEventListener("click", () => {
    button.closest(".item").classList.toggle("large");
  }));
  form.hidden = false;
  update();
}

document.documentElement.dataset.ready = "true";
