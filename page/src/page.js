(() => {
  const charts = [...document.querySelectorAll("figure[id^=chart-]")];
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const keyNames = read("keys");
  const figures = charts.map((chart) => ({ ...read(chart.id.replace("chart", "data")), chart, name: chart.getAttribute("aria-label"), svgs: [...chart.querySelectorAll("svg")] }));
  const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text, ...more });
  const button = (text, label, act) => {
    const element = make("button", text, { type: "button", onclick: act });
    element.setAttribute("aria-label", label);
    return element;
  };
  const number = (value) => (typeof value !== "number" ? String(value ?? "") : String(Number.isSafeInteger(value) ? value : +value.toPrecision(5)));
  // A bin centred on a whole number stands for that number.
  const binText = (from, to) => number(to - from === 1 && !Number.isInteger(from) ? (from + to) / 2 : from);

  // Tables: a click on a head sorts by its column, a second one the other way round.
  const key = (cell) => {
    const text = cell.textContent.trim();
    // parseFloat reads 0x2801 as 0.
    const number = /^0x/.test(text) ? Number(text) : parseFloat(text.replace(/^\u2212/, "-").replace("∞", "Infinity").replaceAll(",", ""));
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    [...table.querySelectorAll("thead th")].forEach((head, column) => {
      if (!head.textContent.trim() || body.rows.length < 2) return;
      const text = head.textContent;
      head.textContent = "";
      head.append(button(text, "Sort by " + text, () => {
        const down = head.getAttribute("aria-sort") === "descending", sign = down ? 1 : -1;
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "ascending" : "descending");
        const order = [...body.rows].map((row) => [key(row.cells[column]), row]);
        order.sort(([a], [b]) => {
          // What is empty stays at the end.
          if (a === null || b === null) return (a === null) - (b === null);
          if (a === b) return 0;
          if (typeof a === typeof b && typeof a === "number") return sign * (a < b ? -1 : 1);
          return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
        });
        body.append(...order.map(([, row]) => row));
      }));
    });
  };
  document.querySelectorAll("table").forEach(sortable);

  // What a chart shows, as rows of points with their texts: for the pointer, the arrow keys and the table.
  const keyOf = ({ key, parts }, i) => key + Math.floor(i / (parts?.[1] ?? 1));
  const areaLines = ({ map }, i) => {
    const value = map.values[i] === null ? "nothing" : `${number(map.values[i])} ${map.unit}`;
    const [name, ...more] = (keyNames[keyOf(map, i)] ?? "").split("\n"), part = map.parts ? `, ${map.parts[0]} ${i % map.parts[1]}` : "";
    return [name + part, ...more, ...(map.hover[i] ?? value).split("\n")].filter(Boolean);
  };
  const place = ({ names }, axis, value) => (names[axis].length ? names[axis][Math.floor(value)] : number(value));
  const points = (figure) => {
    const { map, heat, names, lies } = figure, x = figure.x || "x", y = figure.y || "y";
    if (map) return [map.at.map(([x, y], i) => ({ x, y, lines: areaLines(figure, i), key: keyOf(map, i) }))];
    if (heat)
      return heat.values.map((row, r) => row.map((value, c) => ({
        x: c + 0.5, y: r + 0.5, there: value !== null,
        lines: heat.hover.length ? heat.hover[r][c].split("\n")
          : [`${y} ${names.y[r]}, ${x} ${names.x[c]}`, value === null ? "nothing" : `${number(value)} ${heat.unit}`],
      })));
    return figure.series.map(({ name, look, x: xs, y: ys, low, high, hover }) => ys.map((_, i) => {
      const bins = look === "bins", [from, to] = [xs[i], xs[i + 1]];
      const at = bins ? binText(from, to) : place(figure, "x", from);
      const ends = low ? `, from ${number(low[i])} to ${number(high[i])}` : "";
      const said = lies ? [place(figure, "y", ys[i]), `${x} ${at}${ends}`] : [`${x} ${at}`, `${y} ${number(ys[i])}`];
      return {
        x: bins ? (from + to) / 2 : from, y: ys[i], there: ys[i] !== null && from !== null, place: lies ? place(figure, "y", ys[i]) : at,
        value: lies ? from : ys[i], low: low && [low[i], high[i]], hover: hover?.[i],
        lines: hover ? hover[i].split("\n") : [name, ...said],
      };
    }));
  };
  const tableRows = (figure) => {
    const { map, heat, names, series, lies } = figure;
    if (map) return [["where", map.unit, "more"], map.values.map((value, i) => {
      const [where, ...more] = areaLines(figure, i);
      return [where, number(value), more.join("; ")];
    })];
    if (heat) return [[`${figure.y} / ${figure.x}`, ...names.x], heat.values.map((row, r) => [names.y[r], ...row.map(number)])];
    const head = [(lies ? figure.y : figure.x) || "name"], rows = new Map();
    points(figure).forEach((all, s) => {
      const first = head.length, { name, low, hover } = series[s];
      head.push(name, ...(low ? [name + ", from", name + ", to"] : []), ...(hover ? ["what"] : []));
      all.forEach((point, i) => {
        // Points of their own, and equal names, do not share a row.
        const id = hover || lies ? `${s} ${i}` : point.x;
        if (!rows.has(id)) rows.set(id, [point.place]);
        const cells = [number(point.value), ...(low ? point.low.map(number) : []), ...(hover ? [hover[i].replaceAll("\n", "; ")] : [])];
        cells.forEach((cell, c) => (rows.get(id)[first + c] = cell));
      });
    });
    return [head, [...rows.values()]];
  };
  const tableOf = (figure) => {
    const [head, rows] = tableRows(figure), region = make("div", "", { className: "scroll", tabIndex: 0 });
    const table = region.appendChild(document.createElement("table"));
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "What is drawn: " + figure.chart.getAttribute("aria-label"));
    table.createTHead().insertRow().append(...head.map((text) => make("th", text, { scope: "col" })));
    table.createTBody().append(...rows.map((row) => {
      const line = document.createElement("tr");
      line.append(...head.map((_, i) => make("td", row[i] ?? "", { className: /^[-+\u2212.\d]/.test(row[i]) ? "n" : "" })));
      return line;
    }));
    sortable(table);
    return region;
  };

  // The picture that is seen, and places in it.
  const seen = (figure) => Math.max(0, figure.svgs.findIndex((svg) => svg.checkVisibility()));
  const toPicture = (figure, which, { x, y }) => {
    const [[left, top, right, bottom], ...axes] = figure.frames[which];
    const share = (value, [low, high, log]) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    return [left + share(x, axes[0]) * (right - left), bottom - share(y, axes[1]) * (bottom - top)];
  };
  const svgPart = (name, attributes) => {
    const part = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([name, value]) => part.setAttribute(name, value));
    return part;
  };

  const tip = make("div", "", { className: "tip", hidden: true }), said = make("div", "", { className: "said" });
  tip.setAttribute("aria-hidden", "true");
  said.setAttribute("role", "status");
  document.body.append(tip, said);
  const hide = () => { tip.hidden = true; document.querySelectorAll(".here").forEach((mark) => mark.remove()); };
  const show = (figure, point) => {
    hide();
    const which = seen(figure), svg = figure.svgs[which], [x, y] = toPicture(figure, which, point);
    if (!Number.isFinite(x + y)) return;
    svg.append(svgPart("circle", { class: "here", cx: x, cy: y, r: 20, fill: "none", stroke: "#1F2933", "stroke-width": 6 }));
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    tip.replaceChildren(...point.lines.flatMap((line, i) => (i ? [document.createElement("br"), line] : [line])));
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(at.x + 12, innerWidth - tip.offsetWidth - 4)) + scrollX + "px";
    tip.style.top = (at.y + 12 + tip.offsetHeight > innerHeight ? at.y - 12 - tip.offsetHeight : at.y + 12) + scrollY + "px";
  };
  const cursor = (figure, which, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(figure.svgs[which].getScreenCTM().inverse());
  // The area, cell or point under the pointer.
  const under = (figure, event) => {
    const which = seen(figure), { x, y } = cursor(figure, which, event), [[left, top, right, bottom]] = figure.frames[which], all = points(figure);
    if (figure.map) {
      const { marks, signs } = figure.map, at = [...figure.svgs[which].querySelectorAll("path")].indexOf(event.target) - signs;
      return all[0][at] ?? all[0][marks.flatMap((mark) => mark.which)[at - all[0].length]];
    }
    if (figure.heat) return all[Math.floor(((bottom - y) / (bottom - top)) * all.length)]?.[Math.floor(((x - left) / (right - left)) * all[0].length)];
    let best = 200, found;
    all.flat().filter(({ there }) => there).forEach((point) => {
      const [px, py] = toPicture(figure, which, point), away = Math.hypot(px - x, (py - y) / 3);
      if (away < best) [best, found] = [away, point];
    });
    return found;
  };

  // Where the arrow keys are: a row of points and one of it.
  const walk = (figure, name) => {
    const [from, to] = figure.frames[0][1], all = points(figure);
    const sign = Math.sign(to - from), across = ((name === "ArrowRight") - (name === "ArrowLeft")) * sign, up = (name === "ArrowUp") - (name === "ArrowDown");
    let { row, column } = figure.walked || { row: 0, column: -1 };
    if (column < 0 && figure.map) column = all[0].reduce((best, point, i) => (sign * (point.x - all[0][best].x) < 0 ? i : best), 0);
    else if (column < 0) column = Math.max(0, all[0].findIndex((point) => point.there !== false));
    else if (figure.map) {
      // The nearest one in the direction of the arrow.
      const old = all[0][column];
      let best = Infinity;
      all[0].forEach((point, i) => {
        const [dx, dy] = [point.x - old.x, point.y - old.y], ahead = dx * across + dy * up, cost = ahead + 3 * Math.abs(dx * up + dy * across);
        if (ahead > 1e-6 && cost < best) [best, column] = [cost, i];
      });
    } else if (up) {
      row = figure.heat ? Math.min(Math.max(row + up, 0), all.length - 1) : (row - up + all.length) % all.length;
      column = Math.min(column, all[row].length - 1);
    } else {
      // The next one that is there.
      let next = column + across;
      while (!figure.heat && all[row][next] && !all[row][next].there) next += across;
      if (all[row][next]) column = next;
    }
    const point = all[row]?.[column];
    if (!point) return;
    figure.walked = { row, column, key: point.key };
    said.textContent = point.lines.join(", ");
    show(figure, point);
  };

  // What is chosen on one chart is chosen on those that let the reader choose it.
  const choose = (wanted) => {
    let shown = false;
    document.querySelectorAll(".bar select").forEach((box) => {
      const at = box.keys.lastIndexOf(wanted);
      if (at < 0) return;
      box.value = at;
      box.dispatchEvent(new Event("change"));
      if (!shown) box.closest(".chart").scrollIntoView({ block: "nearest" });
      shown = true;
      said.textContent = "Shown: " + box.selectedOptions[0].textContent;
    });
  };
  // Numbers that the page holds packed: base64 of DEFLATE of the lowest byte of each, then of the next one, four in all.
  const unpacked = async (text) => {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer()), n = bytes.length / 4;
    return Array.from({ length: n }, (_, i) => bytes[i] + 256 * (bytes[n + i] + 256 * (bytes[2 * n + i] + 256 * bytes[3 * n + i])));
  };
  const drawChoice = (figure, choice) => {
    const series = figure.series[0], bins = series.y.length;
    series.y = figure.choices.counts.slice(choice * bins, (choice + 1) * bins);
    const most = Math.max(1, ...series.y), decade = 10 ** Math.floor(Math.log10(most / 4));
    const step = Math.max(1, [1, 2, 2.5, 5, 10].find((factor) => 4 * factor * decade >= most) * decade);
    figure.svgs.forEach((svg, which) => {
      [...svg.querySelectorAll("text")].forEach((text) => {
        text.tick ??= /^\s*y\d\s*$/.test(text.textContent) ? text.textContent.match(/\d/)[0] : "";
        if (text.tick) text.textContent = number(+(step * text.tick).toPrecision(6));
      });
      figure.frames[which][2] = [0, 4 * step, false];
      const corners = series.y.flatMap((y, i) => [series.x[i], series.x[i + 1]].map((x) => toPicture(figure, which, { x, y }).map(Math.round).join()));
      svg.querySelector(".chosen")?.remove();
      svg.append(svgPart("polyline", { class: "chosen", points: corners.join(" "), fill: "none", stroke: "#0B5CAD", "stroke-width": 6 }));
    });
    hide();
  };

  const download = (name, ending, url) => make("a", "", { download: `${name}.${ending}`, href: url }).click();
  // As on a light page, for slides: the colours that are written into the picture.
  const save = (figure, png) => {
    const svg = figure.svgs[seen(figure)].cloneNode(true), [, , across, down] = svg.getAttribute("viewBox").split(" ");
    const width = +svg.dataset.width, height = Math.round((width * down) / across);
    svg.querySelectorAll(".here").forEach((mark) => mark.remove());
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    if (figure.choices) svg.append(Object.assign(svgPart("text", { x: 20, y: 50, "font-family": "sans-serif", "font-size": 48 }), { textContent: figure.choices.names[figure.choice || 0] }));
    const url = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg.outerHTML);
    if (!png) return download(figure.name, "svg", url);
    const image = new Image();
    image.onload = () => {
      const canvas = make("canvas", "", { width: 2 * width, height: 2 * height }), paint = canvas.getContext("2d");
      paint.fillStyle = "#fff";
      paint.fillRect(0, 0, canvas.width, canvas.height);
      paint.drawImage(image, 0, 0, canvas.width, canvas.height);
      download(figure.name, "png", canvas.toDataURL());
    };
    image.src = url;
  };

  figures.forEach((figure) => {
    const { chart, choices, map, name } = figure;
    if (map) figure.svgs.forEach((svg) => (map.signs = [...svg.querySelectorAll("path")].length - map.at.length - map.marks.reduce((sum, { which }) => sum + which.length, 0)));
    chart.tabIndex = 0;
    // The arrow keys are the chart's, not the screen reader's.
    chart.setAttribute("role", "application");
    chart.setAttribute("aria-roledescription", "chart; the arrow keys go through it");
    chart.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key.startsWith("Arrow")) walk(figure, event.key);
      else if (event.key === "Escape") hide();
      else if (event.key === "Enter" && figure.walked?.key !== undefined) choose(figure.walked.key);
      else return;
      event.preventDefault();
    });
    chart.addEventListener("blur", hide);
    chart.addEventListener("mouseleave", hide);
    // Dragging zooms into the picture, a double click shows the whole one.
    let from = null;
    chart.addEventListener("mousedown", (event) => { from = cursor(figure, seen(figure), event); });
    chart.addEventListener("mousemove", (event) => { const point = under(figure, event); point ? show(figure, point) : hide(); });
    chart.addEventListener("mouseup", (event) => {
      const which = seen(figure), svg = figure.svgs[which], to = cursor(figure, which, event), point = under(figure, event);
      const [width, height] = from ? [Math.abs(to.x - from.x), Math.abs(to.y - from.y)] : [0, 0];
      if (width > 60 && height > 60) {
        svg.dataset.whole ??= svg.getAttribute("viewBox");
        svg.style.aspectRatio ||= svg.dataset.whole.split(" ").slice(2).join(" / ");
        svg.setAttribute("viewBox", [Math.min(to.x, from.x), Math.min(to.y, from.y), width, height].join(" "));
        figure.zoomed = true;
      } else if (from && point?.key !== undefined) {
        // What is chosen is scrolled to, which a second click must not find.
        clearTimeout(figure.click);
        figure.click = setTimeout(() => choose(point.key), figure.zoomed ? 300 : 0);
      }
      from = null;
    });
    chart.addEventListener("dblclick", () => {
      clearTimeout(figure.click);
      figure.zoomed = false;
      figure.svgs.forEach((svg) => svg.dataset.whole && svg.setAttribute("viewBox", svg.dataset.whole));
    });

    const bar = make("div", "", { className: "bar" });
    let table = null;
    const showTable = () => {
      const fresh = tableOf(figure);
      if (table) table.replaceWith(fresh); else bar.after(fresh);
      table = fresh;
    };
    const toggle = button("Table", `Show ${name} as a table`, () => {
      if (table) { table.remove(); table = null; } else showTable();
      toggle.setAttribute("aria-expanded", String(table !== null));
    });
    toggle.setAttribute("aria-expanded", "false");
    if (choices) {
      const box = make("select", "", { keys: choices.keys }), label = make("label", choices.label + " ");
      choices.names = choices.keys.map((key, i) => (i < choices.marked ? "▲ " : "") + (keyNames[key] ?? key).replace("\n", ", "));
      choices.names.forEach((name, i) => box.add(new Option(name, i)));
      box.addEventListener("change", () => {
        figure.choice = +box.value;
        drawChoice(figure, figure.choice);
        if (table) showTable();
      });
      label.append(box);
      bar.append(label);
      unpacked(choices.bins).then((counts) => { choices.counts = counts; drawChoice(figure, +box.value); });
    }
    bar.append(toggle, button("PNG", `Save ${name} as PNG`, () => save(figure, true)), button("SVG", `Save ${name} as SVG`, () => save(figure, false)));
    chart.after(bar);
  });
})();
