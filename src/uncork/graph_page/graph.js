"use strict";
// Whatever comes from the model is text: it is set by textContent alone.
(() => {
  const graphs = JSON.parse(document.getElementById("data").textContent);
  const view = document.getElementById("view");
  const panel = document.getElementById("panel");
  const note = document.getElementById("note");
  const svgName = "http://www.w3.org/2000/svg";
  let graph, svg, boxes, arrows, zoom, picked;

  function svgElement(name, attributes, parent) {
    const element = document.createElementNS(svgName, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    parent.appendChild(element);
    return element;
  }

  function element(name, text, parent) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  function time(seconds) {
    if (seconds >= 1) return seconds.toFixed(2) + " s";
    if (seconds >= 1e-3) return (seconds * 1e3).toFixed(2) + " ms";
    return (seconds * 1e6).toFixed(2) + " us";
  }

  // A curve that leaves and reaches points from above and below.
  function curve(points) {
    let text = "M" + points[0].join(" ");
    for (let i = 1; i < points.length; i++) {
      const [x, y] = points[i - 1], [u, v] = points[i], middle = (y + v) / 2;
      text += x === u ? "L" + u + " " + v
        : "C" + x + " " + middle + " " + u + " " + middle + " " + u + " " + v;
    }
    return text;
  }

  function draw(number) {
    graph = graphs[number];
    picked = null;
    panel.hidden = true;
    view.textContent = "";
    const most = Math.max(...graph.boxes.map(box => box.seconds || 0), 0);
    const whole = graph.boxes.reduce((sum, box) => sum + (box.seconds || 0), 0);
    svg = svgElement("svg", {viewBox: "0 0 " + graph.width + " " + graph.height}, view);
    const marker = svgElement("marker", {id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4,
      markerWidth: 7, markerHeight: 7, orient: "auto"}, svgElement("defs", {}, svg));
    svgElement("path", {d: "M0 0L8 4L0 8", fill: "none", stroke: "currentColor"}, marker);
    arrows = graph.arrows.map(([source, target, points]) => {
      const path = svgElement("path", {d: curve(points), "marker-end": "url(#head)"}, svg);
      return {path, source, target};
    });
    boxes = graph.boxes.map((box, index) => {
      const [x, y, width, height] = box.at;
      const group = svgElement("g", {class: "box " + box.group + " " + box.verdict, tabindex: 0,
        role: "button", transform: "translate(" + (x - width / 2) + " " + (y - height / 2) + ")"},
      svg);
      svgElement("rect", {width, height, rx: 5}, group);
      svgElement("text", {x: width / 2, y: 16, class: "what"}, group).textContent = box.lines[0];
      svgElement("text", {x: width / 2, y: 32}, group).textContent = box.lines[1];
      svgElement("title", {}, group).textContent = box.name;
      if (most && box.verdict !== "first") {
        const heat = Math.sqrt((box.seconds || 0) / most);
        group.classList.add("timed");
        group.style.setProperty("--heat", "hsl(" + (48 - 40 * heat) + " " + 90 * heat + "% "
          + (94 - 34 * heat) + "%)");
      }
      group.addEventListener("click", () => pick(index, false));
      group.addEventListener("keydown", event => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          pick(index, false);
        }
      });
      return group;
    });
    note.textContent = (graph.path ? graph.path + ", " : "") + graph.boxes.length + " layers"
      + (whole ? ", " + time(whole) : "");
    if (number) {
      const back = element("a", " back to the model", note);
      back.addEventListener("click", () => draw(0));
    }
    const first = graph.boxes.findIndex(box => box.verdict === "first");
    scale(Math.min(1, Math.max(0.4, view.clientWidth / graph.width)));
    if (first >= 0) pick(first, true);
    else view.scrollLeft = Math.max(0, (graph.width * zoom - view.clientWidth) / 2);
  }

  // Another size, with the middle of what is seen in its place.
  function scale(to) {
    const before = zoom || to;
    const x = (view.scrollLeft + view.clientWidth / 2) / before;
    const y = (view.scrollTop + view.clientHeight / 2) / before;
    zoom = Math.min(4, Math.max(0.02, to));
    svg.setAttribute("width", graph.width * zoom);
    svg.setAttribute("height", graph.height * zoom);
    view.scrollLeft = x * zoom - view.clientWidth / 2;
    view.scrollTop = y * zoom - view.clientHeight / 2;
  }

  function section(title) {
    element("h3", title, panel);
    return element("ul", undefined, panel);
  }

  function link(list, text, index) {
    const item = element("li", undefined, list);
    if (index < 0) item.textContent = text;
    else element("a", text, item).addEventListener("click", () => pick(index, true));
  }

  function pick(index, moves) {
    if (picked !== null) boxes[picked].classList.remove("picked");
    picked = index;
    boxes[index].classList.add("picked");
    for (const arrow of arrows) {
      arrow.path.classList.toggle("near", arrow.source === index || arrow.target === index);
    }
    const box = graph.boxes[index];
    panel.textContent = "";
    panel.hidden = false;
    const close = element("button", "x", panel);
    close.className = "close";
    close.title = "close";
    close.addEventListener("click", () => { panel.hidden = true; });
    element("h2", box.name, panel);
    const facts = element("dl", undefined, panel);
    const more = box.seconds === null ? [] : [["time", time(box.seconds)]];
    for (const [key, value] of [...more, ...box.facts]) {
      element("dt", key, facts);
      element("dd", value, facts);
    }
    const inputs = section("inputs");
    for (const [text, from] of box.inputs) link(inputs, text, from);
    const outputs = section("outputs");
    for (const text of box.outputs) link(outputs, text, -1);
    if (box.readers.length) {
      const readers = section("read by");
      for (const reader of box.readers) link(readers, graph.boxes[reader].name, reader);
    }
    if (box.bodies.length) {
      const bodies = section("bodies");
      for (const [text, number] of box.bodies) {
        const inside = element("a", text, element("li", undefined, bodies));
        inside.addEventListener("click", () => draw(number));
      }
    }
    if (moves) {
      const [x, y] = box.at;
      view.scrollLeft = x * zoom - view.clientWidth / 2
        + Math.max(0, (view.clientWidth - graph.width * zoom) / 2);
      view.scrollTop = y * zoom - view.clientHeight / 2;
    }
  }

  document.getElementById("in").addEventListener("click", () => scale(zoom * 1.3));
  document.getElementById("out").addEventListener("click", () => scale(zoom / 1.3));
  document.getElementById("fit").addEventListener("click", () => scale(Math.min(1,
    view.clientWidth / graph.width, view.clientHeight / graph.height)));
  view.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scale(zoom * Math.exp(-event.deltaY / 300));
  }, {passive: false});
  // Enter goes from one layer that has the text in its name or its operation to the next.
  document.getElementById("find").addEventListener("keydown", event => {
    const text = event.target.value.toLowerCase();
    if (event.key !== "Enter" || !text) return;
    const count = graph.boxes.length, begin = picked === null ? 0 : picked + 1;
    for (let i = 0; i < count; i++) {
      const index = (begin + i) % count, box = graph.boxes[index];
      if (box.name.toLowerCase().includes(text) || box.lines[0].toLowerCase().includes(text)) {
        pick(index, true);
        return;
      }
    }
    note.textContent = "no layer has that in its name";
  });
  draw(0);
})();
