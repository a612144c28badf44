// Curves, drawn as SVG by hand: one line, its area, two axes. Nothing is animated.

const space = 'http://www.w3.org/2000/svg';
const height = 144, left = 52, bottom = 18, top = 6;

function shape(name, attributes, parent, text) {
  const node = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// ceiling is the next number above that reads well.
export function ceiling(most) {
  if (!(most > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 8, 10].map((n) => n * unit).find((n) => n >= most * 0.999);
}

export function clock(time, seconds) {
  return new Date(time).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined, hour12: false});
}

// A Chart draws one series. format writes its values; most, if given, is the upper end of its axis, which reads well in unit.
export class Chart {
  constructor(parent, {name, format, most, unit = 1}) {
    Object.assign(this, {name, format, most, unit});
    this.figure = document.createElement('figure');
    this.figure.innerHTML = '<figcaption><span></span><span class="value"></span></figcaption>';
    [this.title, this.value] = this.figure.querySelectorAll('span');
    this.title.textContent = name;
    this.svg = shape('svg', {role: 'img'}, this.figure);
    this.numbers = document.createElement('details');
    this.numbers.innerHTML = '<summary>As numbers</summary><div class="scroll" role="region" tabindex="0"><table><thead><tr><th scope="col">Time</th><th scope="col" class="number"></th></tr></thead><tbody></tbody></table></div>';
    this.numbers.querySelector('summary').textContent = `${name}: as numbers`;
    this.numbers.querySelector('.scroll').setAttribute('aria-label', `${name}, as numbers`);
    this.numbers.querySelector('th.number').textContent = name;
    this.numbers.addEventListener('toggle', () => this.list());
    this.figure.append(this.numbers);
    parent.append(this.figure);
    this.svg.addEventListener('pointermove', (event) => this.point(event));
    this.svg.addEventListener('pointerleave', () => this.point(null));
  }

  // draw shows values at times, those from one moment to another, which are so many seconds apart.
  draw(times, values, from, to, every) {
    Object.assign(this, {times, values, from, to, every});
    const width = this.svg.clientWidth || 600;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const known = values.filter((value) => value !== null);
    const most = this.most ?? this.unit * ceiling(known.reduce((a, b) => Math.max(a, b), 0) / this.unit);
    this.x = (time) => left + (width - left) * (time - from) / (to - from);
    const y = (value) => top + (height - top - bottom) * (1 - Math.min(value, most) / most);
    this.svg.replaceChildren();
    for (const part of [0, 0.5, 1]) {
      shape('line', {class: 'axis', x1: left, x2: width, y1: y(part * most), y2: y(part * most)}, this.svg);
      shape('text', {x: left - 6, y: y(part * most) + 4, 'text-anchor': 'end'}, this.svg, this.format(part * most));
    }
    for (const part of [0, 0.5, 1]) {
      const anchor = ['start', 'middle', 'end'][part * 2];
      shape('text', {x: left + part * (width - left), y: height - 3, 'text-anchor': anchor}, this.svg, clock(from + part * (to - from)));
    }
    const runs = this.runs();
    for (const run of runs) {
      const line = run.map((i) => `${this.x(times[i]).toFixed(1)},${y(values[i]).toFixed(1)}`);
      shape('polygon', {class: 'area', points: `${this.x(times[run[0]]).toFixed(1)},${y(0)} ${line.join(' ')} ${this.x(times[run.at(-1)]).toFixed(1)},${y(0)}`}, this.svg);
      shape('polyline', {class: 'curve', points: line.join(' ')}, this.svg);
    }
    this.hair = shape('line', {class: 'hair', visibility: 'hidden', y1: top, y2: height - bottom}, this.svg);
    this.show(known);
    if (this.at !== undefined) this.hover(this.at);
    if (this.numbers.open) this.list();
  }

  // runs are the parts without gaps: where there is no value, or nobody looked because the process was suspended.
  runs() {
    const runs = [];
    let run = [];
    this.values.forEach((value, i) => {
      const shown = value !== null && this.times[i] >= this.from;
      const late = run.length > 0 && this.times[i] - this.times[i - 1] > 3000 * this.every;
      if (run.length && (!shown || late)) { runs.push(run); run = []; }
      if (shown) run.push(i);
    });
    if (run.length) runs.push(run);
    return runs;
  }

  show(known) {
    const last = this.values.findLast((value) => value !== null);
    const now = last === undefined ? '–' : this.format(last);
    this.value.textContent = now;
    const label = known.length
      ? `${this.name}: now ${now}, from ${this.format(Math.min(...known))} to ${this.format(Math.max(...known))}, since ${clock(this.from)}`
      : `${this.name}: nothing yet`;
    this.svg.setAttribute('aria-label', label);
  }

  point(event) {
    this.at = undefined;
    if (event && this.times?.length) {
      const box = this.svg.getBoundingClientRect();
      this.at = event.clientX - box.left;
    }
    this.hover(this.at);
  }

  hover(at) {
    if (at === undefined || !this.times?.length) {
      if (this.values) this.show(this.values.filter((value) => value !== null));
      this.hair?.setAttribute('visibility', 'hidden');
      return;
    }
    let best = 0;
    this.times.forEach((time, i) => { if (Math.abs(this.x(time) - at) < Math.abs(this.x(this.times[best]) - at)) best = i; });
    const x = this.x(this.times[best]);
    this.hair.setAttribute('x1', x);
    this.hair.setAttribute('x2', x);
    this.hair.setAttribute('visibility', 'visible');
    const value = this.values[best];
    this.value.textContent = `${clock(this.times[best], true)}  ${value === null ? '–' : this.format(value)}`;
  }

  // list writes twenty values, spread over the time shown, for those who do not see the curve.
  list() {
    if (!this.numbers.open || !this.times) return;
    const step = Math.max(1, Math.floor(this.times.length / 20));
    const rows = [];
    for (let i = this.times.length - 1; i >= 0; i -= step) {
      const row = document.createElement('tr');
      const time = document.createElement('td'), value = document.createElement('td');
      value.className = 'number';
      time.textContent = clock(this.times[i], true);
      value.textContent = this.values[i] === null ? '–' : this.format(this.values[i]);
      row.append(time, value);
      rows.push(row);
    }
    this.numbers.querySelector('tbody').replaceChildren(...rows);
  }
}
