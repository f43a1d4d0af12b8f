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
  const save = (chart, format) =>
    Plotly.downloadImage(chart, { format, filename: chart.dataset.name, scale: format === "png" ? 2 : 1 });
  const content = (chart) => JSON.parse(document.getElementById(chart.id.replace("chart", "data")).textContent);

  // An axis of amounts that does not begin at 0 makes small differences look large: it says so.
  const sayWhereItBegins = (chart, layout) => {
    const axis = chart._fullLayout.yaxis;
    if (!axis || axis.type !== "linear" || layout.yaxis.scaleanchor) return;
    const low = Math.min(...axis.range), high = Math.max(...axis.range);
    const title = (layout.yaxis.title && layout.yaxis.title.text) || "";
    if ((low > 0 || high < 0) && title && !title.includes("not from 0"))
      Plotly.relayout(chart, { "yaxis.title.text": title + " (axis not from 0)" });
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

  const draw = () => charts.forEach((chart) => {
    const { data, layout, choices } = content(chart);
    layout.template = { layout: theme() };
    // Beside the buttons there is no room for a legend on a phone.
    if (narrow.matches && layout.legend) layout.legend = { ...layout.legend, y: -0.3, yanchor: "top" };
    if (choices) data[0].y = choices.values[+(chart.dataset.choice || 0)] || [];
    Plotly.react(chart, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["toImage"] });
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
  charts.forEach((chart) => {
    const { choices } = content(chart);
    const bar = document.createElement("div");
    bar.className = "bar";
    if (choices) {
      const box = document.createElement("select");
      choices.names.forEach((name, i) => box.add(new Option(name, i)));
      box.addEventListener("change", () => {
        chart.dataset.choice = box.value;
        Plotly.restyle(chart, { y: [choices.values[+box.value]] }, [0]);
      });
      const label = document.createElement("label");
      label.append(choices.label + " ", box);
      bar.append(label);
    }
    const name = chart.dataset.name;
    bar.append(button("PNG", "Save " + name + " as PNG", () => save(chart, "png")),
               button("SVG", "Save " + name + " as SVG", () => save(chart, "svg")));
    chart.after(bar);
  });

  // Tables: a click on a head sorts by its column, a second one the other way round.
  const key = (cell) => {
    const text = cell.textContent.trim();
    const number = parseFloat(text.replace(/^\u2212/, "-"));
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  document.querySelectorAll("table").forEach((table) => {
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
          if (typeof a === typeof b && typeof a === "number") return sign * (a - b);
          return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
        });
        body.append(...order.map(([, row]) => row));
      }));
    });
  });

  [dark, narrow].forEach((query) => query.addEventListener("change", draw));
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  // A chart that was folded away has no width until it is seen.
  document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", () => {
    details.querySelectorAll("figure[id^=chart-]").forEach((chart) => Plotly.Plots.resize(chart));
  }));
  draw();
})();
