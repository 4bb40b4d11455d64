// Faults in the looks of a page: texts and marks of too little contrast, and texts that touch drawings.
() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const numbers = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let n = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const e = walker.currentNode.parentElement;
    const style = getComputedStyle(e);
    if (!text || style.display === "none" || style.visibility === "hidden") continue;
    const svg = e.closest("svg");
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const found = ratio(numbers(svg ? style.fill : style.color).slice(0, 3), behind(svg ? svg.parentElement : e));
    n += 1;
    if (found < least) faults.push(`contrast ${found.toFixed(2)} of the text ${text.slice(0, 40)}`);
  }
  const marks = ".dot,.bar,.thin,.o,.all,.pt,.ell,.on,.more,.off,.in,.out,.h3,.l3,.fg,.wall";
  for (const e of document.querySelectorAll(marks)) {
    const style = getComputedStyle(e);
    const behindIt = behind(e.closest("svg").parentElement);
    const drawn = [style.stroke, style.fillOpacity === "1" ? style.fill : "none"].filter((c) => c !== "none");
    const best = Math.max(...drawn.map((c) => ratio(numbers(c).slice(0, 3), behindIt)));
    if (best < 3) faults.push(`contrast ${best.toFixed(2)} of a mark .${e.className.baseVal}`);
  }
  for (const row of document.querySelectorAll(".rows tr")) {
    const drawing = row.querySelector("svg").getBoundingClientRect();
    for (const cell of row.querySelectorAll("th, .v span, .v small")) {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const box = range.getBoundingClientRect();
      if (box.width && box.right > drawing.left) faults.push(`${cell.textContent} touches its drawing`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than its window");
  if (!n) faults.push("no text");
  return [...new Set(faults)];
}
