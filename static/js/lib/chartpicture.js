// The chart as a picture to keep: its title, its panels one below the other, what its colours mean.

const PAD = 16;
const LINE = 22;

/** Save what a LossChart shows as a PNG. */
export function savePicture(chart) {
  const panels = [...chart.panels.values()].filter((panel) => panel.plot);
  if (!panels.length) return;
  const scale = devicePixelRatio;
  const css = getComputedStyle(document.documentElement);
  const style = getComputedStyle(chart.card);
  const width = Math.max(...panels.map(({ plot }) => plot.ctx.canvas.width)) + 2 * PAD * scale;
  const height = panels.reduce((sum, { plot }) => sum + plot.ctx.canvas.height + LINE * scale, (LINE + 2 * PAD) * scale);
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = style.backgroundColor;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = style.color;
  ctx.textBaseline = "top";
  const font = (weight, size) => {
    ctx.font = `${weight} ${size * scale}px ${css.getPropertyValue("--sans")}`;
  };
  font(620, 14);
  let x = PAD * scale;
  let y = PAD * scale;
  for (const [index, { label, colour }] of panels[0].sources.entries()) {
    if (index) {
      ctx.fillStyle = panels[0].colours[colour];
      ctx.fillRect(x, y + 7 * scale, 14 * scale, 2 * scale);
      x += 20 * scale;
      ctx.fillStyle = style.color;
    }
    ctx.fillText(label, x, y);
    x += ctx.measureText(label).width + 18 * scale;
  }
  y += LINE * scale;
  font(400, 12);
  for (const { plot, series } of panels) {
    ctx.fillText(series.unit ? `${series.title}, ${series.unit}` : series.title, PAD * scale, y);
    y += LINE * scale;
    ctx.drawImage(plot.ctx.canvas, PAD * scale, y);
    y += plot.ctx.canvas.height;
  }
  canvas.toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${chart.words.name}.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  }, "image/png");
}
