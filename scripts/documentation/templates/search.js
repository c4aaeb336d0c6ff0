// Names that contain what is typed, best first; NAMES is made by the build.
const box = document.querySelector("nav input[type=search]");
const list = document.querySelector("nav .found");

function rank(name, wanted) {
  const last = name.split(".").pop().toLowerCase();
  if (last === wanted) return 0;
  if (last.startsWith(wanted)) return 1;
  if (last.includes(wanted)) return 2;
  return name.toLowerCase().includes(wanted) ? 3 : 9;
}

box.addEventListener("input", () => {
  const wanted = box.value.trim().toLowerCase();
  const hits = NAMES.map(([name, address, offered]) => [rank(name, wanted) - offered, name, address])
    .filter(([order]) => order < 8)
    .sort((a, b) => a[0] - b[0] || a[1].length - b[1].length)
    .slice(0, 12);
  list.hidden = !wanted;
  list.replaceChildren(...hits.map(([, name, address]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = box.dataset.top + address;
    link.textContent = name;
    item.append(link);
    return item;
  }));
});
