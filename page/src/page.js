(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  let printing = false;
  const theme = () => {
    const night = dark.matches && !printing;
    const [ink, grid] = night ? ["#dfe5ea", "#2e363f"] : ["#1f2933", "#e4e8ec"];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: ink, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui,sans-serif", size: narrow.matches ? 11 : 13 },
      colorway: night ? ["#6cb2f0", "#f0a35e", "#7fd1a8", "#d99be0", "#f08080"]
                      : ["#0b5cad", "#d9730d", "#2a8a5e", "#8e44ad", "#c0392b"],
      xaxis: axis, yaxis: axis,
      // The buttons are on the right.
      title: { x: 0, xref: "paper", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 10 }, font: { size: narrow.matches ? 13 : 15 } },
      hoverlabel: { align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: night ? "#8a949e" : "#9aa5b1", activecolor: ink },
    };
  };
  const charts = [...document.querySelectorAll("figure[id^=chart-]")];
  const contents = charts.map((chart) => JSON.parse(document.getElementById(chart.id.replace("chart", "data")).textContent));
  const save = (chart, format) =>
    Plotly.downloadImage(chart, { format, filename: chart.dataset.name, scale: format === "png" ? 2 : 1 });

  // An axis of amounts that does not begin at 0 makes small differences look large: it says so.
  const sayWhereItBegins = (chart, layout) => {
    // Of bars and intervals that lie, it is the other one.
    const name = layout.yaxis.categoryarray ? "xaxis" : "yaxis", axis = chart._fullLayout[name];
    if (!axis || axis.type !== "linear" || layout.yaxis.scaleanchor) return;
    const low = Math.min(...axis.range), high = Math.max(...axis.range);
    const title = (layout[name].title && layout[name].title.text) || "";
    if ((low > 0 || high < 0) && title && !title.includes("not from 0"))
      Plotly.relayout(chart, { [name + ".title.text"]: title + " (axis not from 0)" });
  };

  // Plotly writes 2 and 5 between the decades of a logarithmic axis in small print.
  const tickLogarithms = (chart) => ["xaxis", "yaxis"].forEach((name) => {
    const axis = chart._fullLayout[name];
    if (!axis || axis.type !== "log") return;
    const [low, high] = [...axis.range].sort((a, b) => a - b);
    const factors = high - low > 2.2 ? [1] : high - low > 1.1 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const vals = [];
    for (let decade = Math.floor(low); decade <= high; decade++)
      factors.forEach((factor) => vals.push(+(factor * 10 ** decade).toPrecision(3)));
    Plotly.relayout(chart, { [name + ".tickvals"]: vals, [name + ".ticktext"]: vals.map(String) });
  });

  // Both ends of each bin.
  const chosen = (choices, i) => (choices.values[i] || []).flatMap((value) => [value, value]);

  // On a phone in two lines.
  const chosenTitle = (choices, i) => {
    const text = (choices.names[i] || "").replace(/&/g, "&amp;").replace(/</g, "&lt;");
    return narrow.matches ? text.replace(" (", "<br>(") : text;
  };

  const draw = () => charts.forEach((chart, i) => {
    const { data, layout: all, choices } = contents[i];
    const layout = { ...all, template: { layout: theme() }, width: undefined, height: undefined };
    // Paper is narrower than the window, and is not there yet when this runs.
    if (printing) layout.width = Math.min(chart.clientWidth, chart.closest(".charts.small,.charts.large") ? 335 : 690);
    if (printing && chart.closest(".charts.large")) layout.height = 335;
    // Beside the buttons there is no room for a legend on a phone.
    if (narrow.matches && layout.legend) layout.legend = { ...layout.legend, y: -0.3, yanchor: "top" };
    if (choices) {
      const i = +(chart.dataset.choice || 0);
      data[0].y = chosen(choices, i);
      layout.title = { text: chosenTitle(choices, i) };
    }
    // The chart has a name and a table; the texts of its axes one by one would say nothing.
    const [names, cells] = [layout.yaxis.categoryarray, data.find((trace) => trace.texttemplate !== undefined)];
    if (names) {
      const rows = names.map((name) => wrapped(name, narrow.matches || printing ? 22 : 60));
      layout.yaxis = { ...layout.yaxis, tickvals: names, ticktext: rows.map((row) => row.join("<br>")) };
      chart.style.height = 110 + names.length * Math.max(24, 8 + 16 * Math.max(...rows.map((row) => row.length))) + "px";
    }
    // What does not fit into its cell is left to the table.
    if (cells) {
      const room = ((layout.width || chart.clientWidth) - 160) / cells.x.length;
      cells.texttemplate = 7.5 * Math.max(...cells.text.flat().map((text) => text.length)) < room ? "%{text}" : "";
    }
    Plotly.react(chart, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["toImage"] });
    chart.firstElementChild.setAttribute("aria-hidden", "true");
    sayWhereItBegins(chart, layout);
    tickLogarithms(chart);
  });

  const button = (text, label, act) => {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = text;
    element.setAttribute("aria-label", label);
    element.addEventListener("click", act);
    return element;
  };

  // Tables: a click on a head sorts by its column, a second one the other way round.
  const key = (cell) => {
    const text = cell.textContent.trim();
    // parseFloat reads 0x2801 as 0.
    const number = /^0x/.test(text) ? Number(text) : parseFloat(text.replace(/^\u2212/, "-").replace("∞", "Infinity"));
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    [...table.querySelectorAll("thead th")].forEach((head, column) => {
      if (!head.textContent.trim() || body.rows.length < 2) return;
      const text = head.textContent;
      head.textContent = "";
      head.append(button(text, "Sort by " + text, () => {
        const down = head.getAttribute("aria-sort") === "descending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "ascending" : "descending");
        const sign = down ? 1 : -1;
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

  // Names of any length, whole: in lines.
  const wrapped = (text, limit) => {
    const rows = [""];
    words(text).split(/(?<=[ ,;])/).flatMap((word) => word.match(new RegExp(`.{1,${limit}}`, "gu")) || []).forEach((word) => {
      if ((rows.at(-1) + word).trimEnd().length > limit && rows.at(-1)) rows.push("");
      rows[rows.length - 1] += word;
    });
    return rows.map((row) => row.trimEnd().replace(/&/g, "&amp;").replace(/</g, "&lt;"));
  };

  // What a chart shows, for those who cannot point at it: as a table, and point by point with the arrow keys.
  const words = (text) => String(text ?? "").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const lines = (text) => String(text ?? "").split("<br>").map(words);
  const number = (value) => (typeof value !== "number" ? words(value) : String(Number.isSafeInteger(value) ? value : +value.toPrecision(5)));
  const axisTitle = (chart, name) => words(chart._fullLayout[name].title.text).replace(" (axis not from 0)", "") || name[0];
  const isMap = (trace) => trace.meta && trace.meta.values;
  // A bin centred on a whole number stands for that number.
  const binText = (from, to) => number(to - from === 1 && !Number.isInteger(from) ? (from + to) / 2 : from);
  // Points for each value: a bin has one at either edge.
  const pointsEach = (trace) => (trace.meta === "bins" ? 2 : 1);

  const drawn = (chart) => {
    const data = chart.data, [x, y] = ["xaxis", "yaxis"].map((name) => axisTitle(chart, name));
    const map = data.find(isMap), heat = data.find((trace) => trace.type === "heatmap");
    if (map)
      return [["where", words(map.meta.unit), "more"], map.hovertext.map((text, i) => {
        const [where, ...more] = lines(text);
        return [where, number(map.meta.values[i]), more.join("; ")];
      })];
    if (heat) {
      const values = (heat.meta && heat.meta.numbers) || heat.z;
      return [[y + " / " + x, ...heat.x.map(words)], heat.y.map((name, i) => [words(name), ...values[i].map(number)])];
    }
    const lie = chart._fullLayout.yaxis.type === "category";
    const head = [lie ? y : x], rows = new Map();
    data.forEach((trace) => {
      if (trace.hoverinfo === "skip") return;
      const [places, values] = lie ? [trace.y, trace.x] : [trace.x, trace.y], each = pointsEach(trace);
      const error = lie ? trace.error_x : trace.error_y, first = head.length, said = trace.hovertext || trace.text;
      const name = words(trace.name || (lie ? x : y));
      head.push(name, ...(error ? [name + ", from", name + ", to"] : []), ...(Array.isArray(said) ? ["what"] : []));
      for (let i = 0; i < values.length; i += each) {
        const place = each === 2 ? binText(places[i], places[i + 1]) : number(places[i]);
        // Points of their own do not share a row.
        const id = Array.isArray(said) ? places[i] + " " + i : places[i];
        if (!rows.has(id)) rows.set(id, [place]);
        const row = rows.get(id);
        row[first] = number(values[i]);
        const ends = trace.meta && trace.meta.from;
        if (ends) [row[first + 1], row[first + 2]] = [number(trace.meta.from[i]), number(trace.meta.to[i])];
        else if (error) [row[first + 1], row[first + 2]] = [number(values[i] - error.arrayminus[i]), number(values[i] + error.array[i])];
        if (Array.isArray(said)) row[first + (error ? 3 : 1)] = lines(said[i]).join("; ");
      }
    });
    return [head, [...rows.values()]];
  };

  const tableOf = (chart) => {
    const [head, rows] = drawn(chart);
    const region = document.createElement("div"), table = region.appendChild(document.createElement("table"));
    region.className = "scroll";
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "What is drawn: " + chart.getAttribute("aria-label"));
    const top = table.createTHead().insertRow();
    head.forEach((text) => {
      const cell = top.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = text;
    });
    const body = table.createTBody();
    rows.forEach((row) => {
      const line = body.insertRow();
      head.forEach((_, i) => {
        const cell = line.insertCell();
        cell.textContent = row[i] ?? "";
        if (/^[-+\u2212.\d]/.test(cell.textContent)) cell.className = "n";
      });
    });
    sortable(table);
    return region;
  };

  const said = document.createElement("div");
  said.className = "said";
  said.setAttribute("role", "status");
  document.body.append(said);

  // Where the arrow keys are: a series and a point of it.
  const walk = (chart, name) => {
    const data = chart.data, maps = data.findIndex(isMap);
    const curves = maps >= 0 ? [maps] : data.map((_, i) => i).filter((i) => data[i].hoverinfo !== "skip");
    let { curve = curves[0], point = null } = chart.walked || {};
    const trace = data[curve];
    if (trace.type === "heatmap") {
      let [row, column] = point || [0, name === "ArrowRight" ? -1 : 0];
      column += (name === "ArrowRight") - (name === "ArrowLeft");
      row += point ? (name === "ArrowUp") - (name === "ArrowDown") : 0;
      point = [Math.min(Math.max(row, 0), trace.y.length - 1), Math.min(Math.max(column, 0), trace.x.length - 1)];
    } else if (maps >= 0 && point !== null) {
      // The nearest one in the direction of the arrow.
      const [across, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[name];
      let best = Infinity, from = point;
      trace.x.forEach((x, i) => {
        const [dx, dy] = [x - trace.x[from], trace.y[i] - trace.y[from]], ahead = dx * across + dy * up;
        const cost = ahead + 3 * Math.abs(dx * up + dy * across);
        if (ahead > 1e-6 && cost < best) [best, point] = [cost, i];
      });
    } else if (maps >= 0) {
      point = 0;
    } else if (point !== null && (name === "ArrowUp" || name === "ArrowDown")) {
      const at = curves.indexOf(curve) + (name === "ArrowDown" ? 1 : curves.length - 1);
      const before = pointsEach(trace), nth = Math.floor(point / before);
      curve = curves[at % curves.length];
      const each = pointsEach(data[curve]);
      point = Math.min(nth * each, data[curve].x.length - each);
    } else {
      // The next one that is there.
      const each = pointsEach(trace), last = trace.x.length - each, step = name === "ArrowLeft" ? -each : each;
      let next = point === null ? 0 : point + step;
      while (next >= 0 && next <= last && (trace.y[next] === null || trace.x[next] === null)) next += step;
      if (next >= 0 && next <= last) point = next;
    }
    if (point === null) return;
    chart.walked = { curve, point };
    const at = data[curve], text = at.hovertext || at.text;
    const ofPoint = Array.isArray(text) && (Array.isArray(point) ? text[point[0]][point[1]] : text[point]);
    if (ofPoint) said.textContent = lines(ofPoint).join(", ");
    else if (at.type === "heatmap") said.textContent = [at.y[point[0]], at.x[point[1]], number(at.z[point[0]][point[1]])].map(words).join(", ");
    else {
      const place = (axis) => axisTitle(chart, axis + "axis") + " " +
        (axis === "x" && pointsEach(at) === 2 ? binText(at.x[point], at.x[point + 1]) : number(at[axis][point]));
      said.textContent = [words(at.name), place("x"), place("y")].join(", ");
    }
    Plotly.Fx.hover(chart, [{ curveNumber: curve, pointNumber: point }]);
  };

  // What is chosen on one chart is chosen on those that let the reader choose it.
  const choose = (wanted) => {
    let shown = false;
    document.querySelectorAll(".bar select").forEach((box) => {
      const at = (box.keys || []).lastIndexOf(wanted);
      if (at < 0) return;
      box.value = at;
      box.dispatchEvent(new Event("change"));
      if (!shown) box.closest(".chart").scrollIntoView({ block: "nearest" });
      shown = true;
      said.textContent = "Shown: " + box.selectedOptions[0].textContent;
    });
  };

  charts.forEach((chart, i) => {
    const { choices } = contents[i];
    const name = chart.dataset.name;
    chart.tabIndex = 0;
    // The arrow keys are the chart's, not the screen reader's.
    chart.setAttribute("role", "application");
    chart.setAttribute("aria-roledescription", "chart; the arrow keys go through it");
    chart.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key.startsWith("Arrow")) walk(chart, event.key);
      else if (event.key === "Escape") Plotly.Fx.unhover(chart);
      else if (event.key === "Enter" && chart.walked) {
        const keys = chart.data[chart.walked.curve].customdata;
        if (keys) choose(keys[chart.walked.point]);
      } else return;
      event.preventDefault();
    });
    chart.addEventListener("blur", () => { if (chart._fullLayout) Plotly.Fx.unhover(chart); });
    const bar = document.createElement("div");
    bar.className = "bar";
    if (choices) {
      const box = document.createElement("select");
      choices.names.forEach((name, i) => box.add(new Option(name, i)));
      box.keys = choices.keys;
      box.addEventListener("change", () => {
        chart.dataset.choice = box.value;
        Plotly.update(chart, { y: [chosen(choices, +box.value)] }, { "title.text": chosenTitle(choices, +box.value) }, [0]);
        if (table) showTable();
      });
      const label = document.createElement("label");
      label.append(choices.label + " ", box);
      bar.append(label);
    }
    let table = null;
    const showTable = () => {
      const fresh = tableOf(chart);
      if (table) table.replaceWith(fresh); else bar.after(fresh);
      table = fresh;
    };
    const toggle = button("Table", "Show " + name + " as a table", () => {
      if (table) { table.remove(); table = null; } else showTable();
      toggle.setAttribute("aria-expanded", String(table !== null));
    });
    toggle.setAttribute("aria-expanded", "false");
    bar.append(toggle, button("PNG", "Save " + name + " as PNG", () => save(chart, "png")),
               button("SVG", "Save " + name + " as SVG", () => save(chart, "svg")));
    chart.after(bar);
  });

  [dark, narrow].forEach((query) => query.addEventListener("change", draw));
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  // A chart that was folded away has no width until it is seen.
  document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", () => {
    details.querySelectorAll("figure[id^=chart-]").forEach((chart) => Plotly.Plots.resize(chart));
  }));
  draw();
  // Where plotly measures texts, far outside.
  document.getElementById("js-plotly-tester")?.setAttribute("aria-hidden", "true");
  charts.forEach((chart) => chart.on("plotly_click", ({ points }) => {
    if (points[0] && points[0].customdata !== undefined) choose(points[0].customdata);
  }));
})();
