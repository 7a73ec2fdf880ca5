// What a page looks like, as text in a last element: its faults, or that it was looked at.
(() => {
  const faults = [];
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (x) => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
    return .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  };
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((k) => a * top[k] + (1 - a) * below[k]);
  };
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(numbers(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "title"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const color = numbers(e.namespaceURI.endsWith("svg") ? style.fill : style.color), back = behind(e.closest("svg")?.parentElement ?? e);
    const [a, b] = [light(over(color, back)), light(back)].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < (e.getAttribute("aria-hidden") === "true" ? 3 : 4.5)) faults.push(`${walker.currentNode.textContent.trim()}: contrast ${contrast.toFixed(2)}`);
  }
  for (const axis of document.querySelectorAll(".xs, .ys")) {
    const boxes = [...axis.children].map((e) => [e.textContent, e.getBoundingClientRect()]);
    for (const [i, [one, x]] of boxes.entries())
      for (const [two, y] of boxes.slice(i + 1))
        if (x.left < y.right && y.left < x.right && x.top < y.bottom && y.top < x.bottom) faults.push(`${one} lies over ${two} on ${axis.closest("figure").innerText.split("\n")[0]}`);
  }
  for (const e of document.querySelectorAll("svg[role=img]")) if (!e.getAttribute("aria-label")) faults.push("a picture has no name");
  for (const e of document.querySelectorAll("input")) if (!e.getAttribute("aria-label") && !document.querySelector(`label[for="${e.id}"]`)) faults.push("a field has no name");
  for (const e of document.querySelectorAll("a")) if (!e.textContent.trim()) faults.push("a link has no name");
  if (document.querySelectorAll("h1").length !== 1 || !document.documentElement.lang || !document.title) faults.push("one headline, a language and a title are expected");
  const pre = document.createElement("pre");
  pre.id = "looked";
  pre.textContent = faults.length ? faults.slice(0, 12).join("\n") : `looked at ${dark ? "dark" : "light"}`;
  document.body.append(pre);
})();
