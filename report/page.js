// Hover, toggles and zoom. All data is in the pictures: nothing is fetched.
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const tip = Object.assign(document.createElement("div"), {className: "tip", hidden: true});
  figure.append(tip);
  // The nearest point that can be pointed at says its value.
  const points = [...svg.querySelectorAll("circle[data-l]")];
  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    const x = (e.clientX - box.left) / box.width * view.width, y = (e.clientY - box.top) / box.height * view.height;
    let best = null, least = 400;
    for (const p of points) {
      if (p.parentNode.classList.contains("off")) continue;
      const d = (p.cx.baseVal.value - x) ** 2 + ((p.cy.baseVal.value - y) / 2) ** 2;
      if (d < least) { least = d; best = p; }
    }
    tip.hidden = !best;
    if (!best) return;
    const name = best.parentNode.dataset.name;
    tip.textContent = (name ? name + ": " : "") + best.dataset.l;
    const outer = figure.getBoundingClientRect();
    tip.style.left = Math.min(outer.width - tip.offsetWidth - 4, Math.max(4, e.clientX - outer.left + 10)) + "px";
    tip.style.top = (e.clientY - outer.top - 26) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  for (const key of figure.querySelectorAll("button.key")) {
    key.addEventListener("click", () => {
      key.classList.toggle("off");
      for (const g of svg.querySelectorAll("g.series")) {
        if (g.dataset.name === key.dataset.toggle) g.classList.toggle("off");
      }
    });
  }
  if (!svg.classList.contains("lanes")) continue;
  const whole = svg.getAttribute("viewBox");
  let from = null;
  const at = (e) => {
    const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal;
    return [v.x + (e.clientX - box.left) / box.width * v.width, v.y + (e.clientY - box.top) / box.height * v.height];
  };
  svg.addEventListener("wheel", (e) => {
    e.preventDefault();
    const v = svg.viewBox.baseVal, [x, y] = at(e), k = e.deltaY > 0 ? 1.25 : 0.8;
    svg.setAttribute("viewBox", [x - (x - v.x) * k, y - (y - v.y) * k, v.width * k, v.height * k].join(" "));
  }, {passive: false});
  svg.addEventListener("pointerdown", (e) => { from = at(e); svg.setPointerCapture(e.pointerId); });
  svg.addEventListener("pointerup", (e) => {
    if (!from) return;
    const [x, y] = at(e), w = Math.abs(x - from[0]), h = Math.abs(y - from[1]);
    if (w > 5 && h > 5) svg.setAttribute("viewBox", [Math.min(x, from[0]), Math.min(y, from[1]), w, h].join(" "));
    from = null;
  });
  svg.addEventListener("dblclick", () => svg.setAttribute("viewBox", whole));
}
