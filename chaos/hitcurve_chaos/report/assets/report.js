"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  document.body.append(tip);
  const clock = (s) => `${Math.floor(s / 60)}:${String(Math.round(s) % 60).padStart(2, "0")}`;
  const nearest = (points, x) =>
    points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), points[0]);
  const show = (value) => (value === null ? "no value" : value <= 1 ? `${(100 * value).toFixed(1)} %` : value.toFixed(1));
  for (const chart of document.querySelectorAll("svg[data-chart]")) {
    const data = JSON.parse(chart.dataset.chart);
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    const box = chart.viewBox.baseVal;
    chart.addEventListener("pointermove", (event) => {
      const frame = chart.getBoundingClientRect();
      const at = ((event.clientX - frame.left) / frame.width) * box.width;
      const share = (at - data.left) / (box.width - data.left - data.right);
      const x = data.x[0] + Math.min(Math.max(share, 0), 1) * (data.x[1] - data.x[0]);
      const rows = data.lines.filter((line) => line.points.length).map((line) => [line.name, nearest(line.points, x)]);
      const state = data.strip.find(([from, to]) => x >= from && x <= to);
      tip.replaceChildren();
      const line = (name, text) => {
        const row = document.createElement("div");
        const strong = document.createElement("b");
        strong.textContent = text;
        row.append(`${name} `, strong);
        tip.append(row);
      };
      line("at", clock(x));
      for (const [name, point] of rows) line(name, show(point[1]));
      if (state) line("state", state[2].replaceAll("_", " "));
      tip.style.display = "block";
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY + 14}px`;
      cursor.setAttribute("x1", at); cursor.setAttribute("x2", at);
      cursor.setAttribute("y1", 24); cursor.setAttribute("y2", box.height - 26);
      chart.append(cursor);
    });
    chart.addEventListener("pointerleave", () => { tip.style.display = "none"; cursor.remove(); });
  }
})();
