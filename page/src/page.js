(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const theme = () => {
    const [ink, grid] = dark.matches ? ["#dfe5ea", "#2e363f"] : ["#1f2933", "#e4e8ec"];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: ink, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui,sans-serif", size: narrow.matches ? 11 : 13 },
      colorway: dark.matches ? ["#6cb2f0", "#f0a35e", "#7fd1a8", "#d99be0", "#f08080"]
                             : ["#0b5cad", "#d9730d", "#2a8a5e", "#8e44ad", "#c0392b"],
      xaxis: axis, yaxis: axis,
      hoverlabel: { align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: dark.matches ? "#8a949e" : "#9aa5b1", activecolor: ink },
    };
  };
  const svg = {
    name: "svg", title: "Download plot as SVG", icon: Plotly.Icons.disk,
    click: (chart) => Plotly.downloadImage(chart, { format: "svg", filename: chart.dataset.name }),
  };
  const charts = [...document.querySelectorAll("figure[id^=chart-]")];
  const draw = () => charts.forEach((chart) => {
    const { data, layout } = JSON.parse(document.getElementById(chart.id.replace("chart", "data")).textContent);
    layout.template = { layout: theme() };
    // Beside the buttons there is no room for a legend on a phone.
    if (narrow.matches && layout.legend) layout.legend = { ...layout.legend, y: -0.3, yanchor: "top" };
    Plotly.react(chart, data, layout, {
      responsive: true, displaylogo: false, modeBarButtonsToAdd: [svg],
      toImageButtonOptions: { format: "png", scale: 2, filename: chart.dataset.name },
    });
  });
  [dark, narrow].forEach((query) => query.addEventListener("change", draw));
  draw();
})();
