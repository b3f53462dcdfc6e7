"use strict";
// The layers: a table of which only the rows in sight exist, filters, and a layer's own view.
// Names come from a model: they reach the document as text alone, never as markup.
(() => {
  const source = document.getElementById("data");
  if (!source) return;
  const parsed = JSON.parse(source.textContent);
  const unpack = ({ fields, rows }) => rows.map((row) => Object.fromEntries(fields.map((f, i) => [f, row[i]])));
  const { layers, tensors, groups, kernels, graph } = Object.fromEntries(
    Object.entries(parsed).map(([name, packed]) => [name, unpack(packed)]));
  const groupOf = new Map(groups.map((group) => [group.id, group]));
  const place = new Map(layers.map((layer, at) => [layer.name, at]));
  const users = graph.map(() => []);
  graph.forEach((node, at) => node.reads.forEach((from) => users[from].push(at)));

  const $ = (id) => document.getElementById(id);
  const hidden = /[\p{C}\p{Zl}\p{Zp}]/gu;
  const visible = (text) => String(text).replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const short = (text, most = 160) => text.length <= most ? text
    : `${text.slice(0, Math.floor((most - 3) / 3))}...${text.slice(-Math.ceil((most - 3) * 2 / 3))}`;
  const shown = (text, most) => short(visible(text), most);
  // of a name what is left out is its beginning, which it has in common with its neighbours
  const named = (text, most) => { const seen = visible(text); return seen.length <= most ? seen : `...${seen.slice(3 - most)}`; };
  const decimal = (count) => {
    for (const [prefix, unit] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
      if (Math.abs(count) >= unit) return `${+(count / unit).toPrecision(3)} ${prefix}`;
    return String(+count.toPrecision(3));
  };
  const bytes = (count) => count < 1000 ? `${count} B` : `${decimal(count)}B`;
  const level = (db) => db === "inf" ? "equal" : db === "-inf" ? "not finite" : db.toFixed(1);
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const number = (value) => value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
  const some = (value) => value !== null && value !== "";

  // -- the kernels, in rows that exist once somebody looks ------------------------------------------
  const schedule = document.getElementById("schedule");
  if (schedule) schedule.addEventListener("toggle", () => {
    const room = schedule.querySelector("tbody");
    if (!schedule.open || room.childElementCount) return;
    room.append(...kernels.map(({ kind, precision, nodes, reads, writes, moved, name }, at) => {
      const row = document.createElement("tr");
      const more = nodes.length > 6 ? ` +${nodes.length - 6}` : "";
      const merged = nodes.slice(0, 6).map((node) => named(node, 60)).join(" + ") + more;
      for (const [text, look] of [[at + 1, "number"], [kind], [precision], [merged || named(name, 60)],
        [reads.map((from) => from + 1).join(", ")], [short(writes)], [bytes(moved), "number"]]) {
        const cell = row.insertCell();
        cell.textContent = text;
        if (look) cell.className = look;
      }
      return row;
    }));
  });

  // -- the table -------------------------------------------------------------------------------
  const narrow = innerWidth < 600;
  // in sight: at 1280 pixels all up to "threshold", on a telephone the errors
  const columns = [
    { key: "name", title: "layer", width: narrow ? 140 : 240, show: (v) => named(v, 200), name: true },
    { key: "op", title: "operator", width: 98 },
    { key: "planned", title: "planned", width: 93 },
    { key: "compiled", title: "compiled", width: 101 },
    { key: "isolated", title: "alone, dB", width: 103, show: level, right: true, first: true, hint: "SQNR of the layer alone, on the float model's values" },
    { key: "accumulated", title: "accum., dB", width: 115, show: level, right: true, first: true, hint: "SQNR with the errors of all layers before it" },
    { key: "noise", title: "outputs, dB", width: 120, show: level, right: true, hint: "Sensitivity: SQNR of the model's outputs with this layer alone quantized, predicted" },
    { key: "gain", title: "gain, dB", width: 95, show: level, right: true, hint: "What leaving it in float gains" },
    { key: "clip", title: "threshold", width: 105, show: percent, right: true, hint: "Threshold over the greatest magnitude of what it reads" },
    { key: "macs", title: "MACs", width: 80, show: decimal, right: true },
    { key: "moved", title: "moved", width: 84, show: bytes, right: true, hint: "Bytes that its kernels read and write" },
    { key: "shape", title: "shape", width: 130 },
    { key: "because", title: "reason", width: 300, show: (v) => shown(v, 120) },
  ].filter((column) => layers.some((layer) => some(layer[column.key]) && layer[column.key] !== 0));
  const rank = ({ name, first }) => name ? 0 : first ? 1 : 2;
  if (narrow) columns.sort((a, b) => rank(a) - rank(b));
  const HEIGHT = 28, MARGIN = 12;
  const table = $("table"), room = $("room"), rows = $("rows"), head = $("head");
  let order = layers.map((_, at) => at), sorted = { key: "", down: false }, chosen = -1, drawn = "";

  const element = (tag, text = "", name = "") => {
    const made = document.createElement(tag);
    if (text !== "") made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const cell = (column, text) => {
    const made = element("div", text, column.right ? "cell right" : "cell");
    made.style.width = `${column.width}px`;
    return made;
  };
  const link = (name) => `#layer=${encodeURIComponent(name)}`;

  function rowOf(at, position) {
    const layer = layers[at], made = element("a", "", position === chosen ? "row chosen" : "row");
    try { made.href = link(layer.name); } catch { made.href = `#layer=@${at}`; }  // a name with half a character
    made.setAttribute("role", "row");
    made.tabIndex = -1;
    made.dataset.position = position;
    for (const column of columns) {
      const value = layer[column.key];
      const made_cell = cell(column, some(value) ? (column.show ? column.show(value) : visible(value)) : "");
      if (column.name) {
        made_cell.classList.add("named");
        made_cell.replaceChildren(element("bdi", made_cell.textContent));
      }
      if (column.key === "because" || column.key === "name") made_cell.title = shown(value, 400);
      made.append(made_cell);
    }
    return made;
  }
  function draw(all = false) {
    const first = all ? 0 : Math.max(0, Math.floor(table.scrollTop / HEIGHT) - MARGIN);
    const last = all ? order.length : Math.min(order.length, first + Math.ceil(table.clientHeight / HEIGHT) + 2 * MARGIN);
    const state = `${first} ${last} ${chosen}`;
    if (state === drawn) return;
    drawn = state;
    rows.replaceChildren(...order.slice(first, last).map((at, index) => rowOf(at, first + index)));
    rows.style.transform = `translateY(${first * HEIGHT}px)`;
  }
  function settle() {
    room.style.height = `${order.length * HEIGHT}px`;
    room.style.width = head.style.width = `max(100%, ${columns.reduce((sum, column) => sum + column.width, 0)}px)`;
    $("count").textContent = order.length === layers.length ? `${layers.length} layers` : `${order.length} of ${layers.length} layers`;
    drawn = "";
    draw();
  }
  const glob = (text) => {
    const wild = /[*?]/.test(text);
    const pattern = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    return new RegExp(wild ? `^${pattern}$` : pattern, "is");
  };
  const reasonOf = (layer) => layer.code || layer.because;
  function filter() {
    const wanted = glob($("q").value.trim()), op = $("op").value, precision = $("precision").value, reason = $("reason").value;
    order = layers.map((_, at) => at).filter((at) => {
      const layer = layers[at];
      return wanted.test(layer.name) && (!op || layer.op === op) && (!reason || reasonOf(layer) === reason)
        && (!precision || (layer.compiled || layer.planned) === precision);
    });
    if (sorted.key) {
      const sign = sorted.down ? -1 : 1;
      order.sort((a, b) => {
        const one = number(layers[a][sorted.key]), other = number(layers[b][sorted.key]);
        if (!some(one) || !some(other)) return some(other) - some(one);
        return sign * (typeof one === "string" ? one.localeCompare(other) : one === other ? 0 : one - other) || a - b;
      });
    }
    chosen = -1;
    table.scrollTop = 0;
    settle();
  }
  function options(id, values) {
    const counts = new Map();
    values.filter(some).forEach((value) => counts.set(value, (counts.get(value) || 0) + 1));
    [...counts].sort((a, b) => b[1] - a[1]).slice(0, 200).forEach(([value, count]) => {
      const made = element("option", `${shown(value, 60)} (${count})`);
      made.value = value;
      $(id).append(made);
    });
    $(id).hidden = counts.size < 2;
  }
  for (const column of columns) {
    const made = cell(column, ""), button = element("button", column.title);
    button.type = "button";
    button.title = column.hint || "";
    made.setAttribute("role", "columnheader");
    button.onclick = () => {
      // numbers of which little is bad begin with the least, others with the greatest
      const down = ["macs", "moved", "gain"].includes(column.key);
      sorted = { key: column.key, down: sorted.key === column.key ? !sorted.down : down };
      head.querySelectorAll("[aria-sort]").forEach((other) => {
        other.removeAttribute("aria-sort");
        other.firstChild.textContent = other.firstChild.textContent.replace(/ [\u2191\u2193]$/, "");
      });
      made.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      button.textContent = `${column.title} ${sorted.down ? "\u2193" : "\u2191"}`;
      filter();
    };
    made.append(button);
    head.append(made);
  }
  options("op", layers.map((layer) => layer.op));
  options("precision", layers.map((layer) => layer.compiled || layer.planned));
  options("reason", layers.map(reasonOf));
  document.querySelector(".scripted").hidden = false;
  $("filter").addEventListener("submit", (event) => event.preventDefault());
  $("filter").addEventListener("input", filter);
  table.addEventListener("scroll", () => draw());
  addEventListener("resize", () => draw());
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", settle);
  settle();

  // -- a layer's own view ----------------------------------------------------------------------
  const panel = $("layer");
  const SVG = "http://www.w3.org/2000/svg";
  const svg = (tag, attributes = {}, text = "") => {
    const made = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== "") made.textContent = text;
    return made;
  };
  function pairs(entries) {
    const list = element("dl");
    entries.filter(([, value]) => some(value) && value !== undefined).forEach(([label, value]) => {
      const told = element("dd");
      told.append(...(Array.isArray(value) ? value : [visible(value)]));
      list.append(element("dt", label), told);
    });
    return list;
  }
  const figure = (value) => value === null ? "" : String(+value.toPrecision(4));

  function histogram(tensor) {
    const counts = tensor.counts.split(" ").map(Number), most = Math.log1p(Math.max(...counts));
    const drawing = svg("svg", { class: "histogram", viewBox: "0 0 640 130", preserveAspectRatio: "none", role: "img" });
    const wide = 640 / counts.length;
    counts.forEach((count, at) => {
      const high = most ? 120 * Math.log1p(count) / most : 0;
      drawing.append(svg("rect", { x: at * wide, y: 130 - high, width: wide * 0.9, height: high }));
    });
    (tensor.widest_counts ? tensor.widest_counts.split(" ").map(Number) : []).forEach((count, at) => {
      const high = most ? 120 * Math.log1p(count) / most : 0;
      drawing.append(svg("rect", { class: "widest", x: at * wide, y: 130 - high, width: wide * 0.9, height: high }));
    });
    drawing.append(svg("title", {}, tensor.kind === "weight"
      ? "How often magnitudes of weights occur, by their logarithm; in the other color: the channel with the greatest"
      : "How often magnitudes occur, by their logarithm; the line is the threshold"));
    if (tensor.amax !== null && tensor.top && !tensor.before) {
      const x = Math.min(638, 640 * tensor.amax / tensor.top);
      drawing.append(svg("line", { class: "threshold", x1: x, x2: x, y1: 0, y2: 130 }));
    }
    return drawing;
  }
  function octaves(rows) {
    const parsed = rows.map(([channel, first, counts]) => ({ channel, first, counts: counts.split(" ").map(Number) }));
    const first = Math.min(...parsed.map((row) => row.first)), last = Math.max(...parsed.map((row) => row.first + row.counts.length));
    const wide = 540 / (last - first), high = parsed.length * 22;
    const drawing = svg("svg", { class: "octaves", viewBox: `0 0 640 ${high}`, role: "img" });
    parsed.forEach((row, line) => {
      const most = Math.max(...row.counts), label = svg("text", { x: 0, y: line * 22 + 15 });
      label.textContent = row.channel === null ? "all" : `channel ${row.channel}`;
      drawing.append(label);
      row.counts.forEach((count, at) => { if (count) drawing.append(
        svg("rect", { x: 100 + (row.first + at - first) * wide, y: line * 22, width: wide * 0.94, height: 19, opacity: 0.12 + 0.88 * count / most })); });
    });
    drawing.append(svg("title", {}, `How magnitudes are spread: a column is an octave, from 2^${first} to 2^${last}`));
    return drawing;
  }
  function profile(tensor) {
    const values = tensor.scales.split(" ").map(Number), most = Math.max(...values) || 1, wide = 640 / values.length;
    const drawing = svg("svg", { class: "histogram", viewBox: "0 0 640 130", preserveAspectRatio: "none", role: "img" });
    values.forEach((value, at) => drawing.append(
      svg("rect", { x: at * wide, y: 130 - 120 * value / most, width: wide * 0.9, height: 120 * value / most })));
    drawing.append(svg("title", {}, "Scales of the channels, sorted"));
    return drawing;
  }
  function tensorPart(tensor) {
    const part = element("section");
    part.append(element("h4", `${tensor.kind === "weight" ? "Weights" : "Reads"} ${shown(tensor.name)}`));
    const group = groupOf.get(tensor.group);
    const spread = tensor.scales ? tensor.scales.split(" ").map(Number) : [];
    part.append(pairs([
      ["pair because", shown(tensor.because, 300)],
      ["scale", figure(tensor.scale) || (tensor.channels ? `${tensor.channels}, one a channel (axis ${tensor.axis}), ${figure(spread[0])} to ${figure(spread[spread.length - 1])}` : "")],
      ["seen", tensor.low === null ? "" : `${figure(tensor.low)} to ${figure(tensor.high)}`],
      ["threshold", tensor.amax === null ? "" : `\u00b1${figure(tensor.amax)}`],
      ["found by", shown(tensor.range_because, 300)],
      ["edited by", !tensor.edited ? "" : tensor.before
        ? `${tensor.edited}: scale and threshold are after it; what was seen, mean and histogram are before it`
        : `${tensor.edited}: all figures here are after it`],
      ["mean, deviation", tensor.mean === null ? "" : `${figure(tensor.mean)}, ${figure(tensor.deviation)}`],
      ["scale shared with", group ? shown(group.tensors.filter((name) => name !== tensor.name).join(", "), 600) : ""],
      ["shared because", group ? shown(group.reasons.join("; "), 600) : ""],
    ]));
    if (tensor.counts) part.append(element("p", `magnitudes from 0 to ${figure(tensor.top)}, how often (logarithmic)${tensor.before ? `, before ${tensor.edited}` : tensor.widest === null ? "; line: threshold" : `; in the other color: channel ${tensor.widest}, which has the greatest`}`, "quiet"), histogram(tensor));
    if (tensor.octaves.length) part.append(element("p", "channels with the greatest values: a column an octave of the magnitude, the darker the more", "quiet"), octaves(tensor.octaves));
    if (spread.length > 1) part.append(element("p", "scales of the channels, from the least to the greatest", "quiet"), profile(tensor));
    return part;
  }
  function around(at) {
    const columnsOf = [graph[at].reads.slice(0, 6), [at], users[at].slice(0, 6)];
    const rowsHigh = Math.max(...columnsOf.map((column) => column.length));
    const high = rowsHigh * 48 + 12, drawing = svg("svg", { class: "around", viewBox: `0 0 600 ${high}`, role: "img" });
    const spot = (column, index) => [8 + column * 200, (high - columnsOf[column].length * 48) / 2 + index * 48 + 5];
    const [x, y] = spot(1, 0);
    columnsOf[0].forEach((_, index) => { const [fx, fy] = spot(0, index); drawing.append(svg("path", { d: `M${fx + 184} ${fy + 19}L${x} ${y + 19}` })); });
    columnsOf[2].forEach((_, index) => { const [tx, ty] = spot(2, index); drawing.append(svg("path", { d: `M${x + 184} ${y + 19}L${tx} ${ty + 19}` })); });
    columnsOf.forEach((column, number) => column.forEach((node, index) => {
      const [bx, by] = spot(number, index), known = place.has(graph[node].name);
      const box = svg(known ? "a" : "g", { class: node === at ? "here" : "" });
      if (known) try { box.setAttribute("href", link(graph[node].name)); } catch { /* half a character */ }
      box.append(svg("rect", { x: bx, y: by, width: 184, height: 38, rx: 5 }));
      box.append(svg("text", { x: bx + 8, y: by + 16 }, shown(graph[node].op, 28)));
      box.append(svg("text", { x: bx + 8, y: by + 30, class: "of" }, named(graph[node].name, 28)));
      drawing.append(box);
    }));
    return drawing;
  }
  function open(at) {
    const layer = layers[at], close = element("button", "close", "close");
    close.type = "button";
    close.onclick = shut;
    const parts = [close, element("h3", shown(layer.name, 400)), pairs([
      ["operator", layer.op],
      ["gives", [layer.dtype, layer.shape].filter(Boolean).join(" ")],
      ["weights", layer.weights],
      ["planned", layer.planned],
      ["compiled", layer.compiled],
      ["reason", shown(layer.because, 600)],
      ["MACs", layer.macs === null ? "" : decimal(layer.macs)],
      ["SQNR alone", some(layer.isolated) ? `${level(layer.isolated)} dB` : ""],
      ["SQNR accumulated", some(layer.accumulated) ? `${level(layer.accumulated)} dB` : ""],
      ["noise at outputs", some(layer.noise) ? `${level(layer.noise)} dB, predicted` : ""],
      ["gain in float", some(layer.gain) ? `${level(layer.gain)} dB` : ""],
      ["threshold", some(layer.clip) ? `${percent(layer.clip)} of the greatest magnitude` : ""],
      ["suspicious", shown(layer.causes.join("; "), 800)],
    ])];
    if (layer.node >= 0) parts.push(element("h4", "Around it"), around(layer.node));
    layer.tensors.slice(0, 12).forEach((tensor) => parts.push(tensorPart(tensors[tensor])));
    if (layer.kernels.length) {
      parts.push(element("h4", "Kernels of the engine"));
      layer.kernels.slice(0, 12).forEach((kernel) => {
        const { name, kind, precision, moved, weights, nodes } = kernels[kernel];
        parts.push(pairs([["kernel", shown(name, 200)], ["kind", `${kind}, ${precision}`],
          ["moves", `${bytes(moved)}, ${bytes(weights)} of constants`], ["nodes in it", shown(nodes.join(", "), 600)]]), element("hr"));
      });
    }
    panel.replaceChildren(...parts);
    panel.hidden = false;
    panel.scrollTop = 0;
  }
  function shut() {
    panel.hidden = true;
    if (location.hash.startsWith("#layer=")) history.replaceState(null, "", location.pathname + location.search);
    table.focus({ preventScroll: true });
  }
  function linked() {
    if (!location.hash.startsWith("#layer=")) { panel.hidden = true; return; }
    let name = location.hash.slice(7);
    try { name = decodeURIComponent(name); } catch { /* as it stands */ }
    const at = name[0] === "@" && !place.has(name) ? +name.slice(1) : place.get(name);
    if (layers[at]) open(at);
  }
  addEventListener("hashchange", linked);
  linked();

  // -- keys ------------------------------------------------------------------------------------
  function choose(position) {
    if (!order.length) return;
    chosen = Math.min(order.length - 1, Math.max(0, position));
    const top = chosen * HEIGHT, sight = table.clientHeight - 2 * HEIGHT;
    if (top < table.scrollTop) table.scrollTop = top;
    if (top > table.scrollTop + sight) table.scrollTop = top - sight;
    draw();
    if (!panel.hidden) location.hash = rows.querySelector(".chosen").hash;
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (!panel.hidden) shut(); else if (event.target.closest("#filter")) event.target.blur();
      return;
    }
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Enter" || event.key === "ArrowDown" && event.target.id === "q") { table.focus(); choose(0); event.preventDefault(); }
      return;
    }
    const here = event.target === table || table.contains(event.target);
    if (event.key === "/") $("q").focus();
    else if (event.key === "j" || event.key === "ArrowDown" && here) choose(chosen + 1);
    else if (event.key === "k" || event.key === "ArrowUp" && here) choose(chosen - 1);
    else if (event.key === "Enter" && chosen >= 0 && !event.target.closest("button, summary, a:not(.row)")) location.hash = rows.querySelector(".chosen").hash;
    else return;
    event.preventDefault();
    if (event.key === "/") $("layers").scrollIntoView();
  });
  table.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) { chosen = +row.dataset.position; draw(); }
  });
})();
