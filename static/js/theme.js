// Runs before the first paint: "auto" becomes what the system prefers, and follows it. The server is told the time zone,
// for people who chose none.
{
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const settle = () => {
    const chosen = root.dataset.theme;
    root.dataset.bsTheme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  };
  settle();
  dark.addEventListener("change", settle);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.cookie = `timezone=${zone}; path=/; max-age=31536000; samesite=lax`;
}
