// Runs before the first paint: "auto" becomes what the system prefers, and follows it.
{
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const settle = () => {
    const chosen = root.dataset.theme;
    root.dataset.bsTheme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  };
  settle();
  dark.addEventListener("change", settle);
}
