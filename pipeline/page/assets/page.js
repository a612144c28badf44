// The status page. It asks for JSON and shows it; the one thing that it can change is to end the job.
import {Chart} from './draw.js';

const $ = (id) => document.getElementById(id);
const stateEvery = 500, patience = 5000;
const kept = {'10m': 600, '2h': 720, '24h': 1440};
const spans = {'10m': 600e3, '2h': 7200e3, '24h': 86400e3};
let token = '';

// Numbers, times and sizes as people read them.
const count = (n) => Math.round(n).toLocaleString('en');
const short = (n) => n >= 1e6 ? `${trim(n / 1e6)}M` : n >= 1e4 ? `${trim(n / 1e3)}k` : n >= 100 || Number.isInteger(n) ? count(n) : trim(n);
const trim = (n) => String(Number(n.toPrecision(3)));
const percent = (share) => `${Math.round(100 * share)} %`;
function duration(seconds) {
  if (seconds > 0 && seconds < 0.1) return `${trim(seconds * 1000)} ms`;
  if (seconds < 10) return `${trim(seconds)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${trim(seconds / 3600)} h`;
  return `${trim(seconds / 86400)} days`;
}
const size = (bytes) => bytes >= 2 ** 30 ? `${trim(bytes / 2 ** 30)} GiB` : `${trim(bytes / 2 ** 20)} MiB`;

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// ask asks the server for JSON.
async function ask(path, options = {}, bearer = token) {
  const headers = {...options.headers};
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  const limit = options.method === 'POST' ? 30000 : patience;
  const answer = await fetch(path, {...options, headers, signal: AbortSignal.timeout(limit), cache: 'no-store'});
  if (!answer.ok) throw new Refusal(answer.status, (await answer.text()).trim());
  return answer.json();
}

function post(path, body, bearer) {
  return ask(path, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)}, bearer);
}

// What the server last said, and whether it still does.
function status(text, bad) {
  setText($('status'), text);
  $('status').classList.toggle('bad', bad);
}

function refused(error) {
  if (error.status === 401 || error.status === 429) {
    $('token-form').hidden = false;
    setText($('token-problem'), token ? error.message : '');
    status('A token is needed', true);
    return;
  }
  status(error.status ? error.message : `No answer since ${new Date(lastAnswer).toLocaleTimeString([], {hour12: false})}`, true);
}

// The job, which stays the same.
function row(name, value) {
  const line = element('tr');
  const head = element('th', name);
  head.scope = 'row';
  line.append(head, element('td', value));
  return line;
}

function showJob(job) {
  document.title = `${job.name} · sluice`;
  setText($('job'), job.name);
  setText($('route'), `${job.source} → ${job.sink}`);
  setText($('version'), `sluice ${job.version}`);
  $('settings').replaceChildren(...job.settings.map((setting) => row(setting.path, setting.value)));
  const model = [['files', job.model.paths.join(' ')], ['precision', job.model.precision], ['fingerprint', job.model.fingerprint],
    ['kernels', job.model.kernels.join('; ')], ...Object.entries(job.model.madeOf ?? {})];
  $('model').replaceChildren(...model.map(([name, value]) => row(name, value)));
  $('stop-section').hidden = !job.canStop;
}

// The state, twice a second.
let lastAnswer = Date.now(), lastKept = '';

function showNow(state) {
  const values = {
    words: short(state.now.words), records: short(state.now.records), decoder: percent(state.now.decoder), busy: percent(state.now.busy),
    lag: state.now.lag < 0 ? '–' : short(state.now.lag), age: duration(state.now.age),
    failed: count((state.total.flags.failed ?? 0) + (state.total.flags.unreadable ?? 0)), left: '–',
  };
  const left = state.left;
  setText($('left-name'), left?.of === 'lag' ? 'Until caught up' : 'Time left');
  if (left) values.left = left.seconds < 0 ? '–' : left.seconds === 0 && left.of === 'lag' ? 'caught up' : duration(left.seconds);
  for (const node of document.querySelectorAll('[data-now]')) setText(node, values[node.dataset.now]);
  document.querySelector('[data-now=failed]').classList.toggle('bad', values.failed !== '0');
  $('share-line').hidden = left?.of !== 'input';
  if (left?.of === 'input') {
    $('share').value = left.share;
    setText($('share-text'), `${(100 * left.share).toFixed(1)} %`);
  }
}

function showStages(stages) {
  const most = Math.max(1e-9, ...stages.map((stage) => stage.lately));
  const names = {
    read: 'lanes: read', wait: 'lanes: wait for the engine', write: 'lanes: write', commit: 'lanes: commit',
    encode: 'workers: encode', decode: 'workers: decode', idle: 'workers: wait for sentences',
  };
  const body = $('stages');
  while (body.rows.length < stages.length) {
    const line = row('', '');
    line.append(element('td'), element('td', '', 'number'));
    line.cells[1].className = 'number';
    line.cells[2].append(element('div', undefined, 'meter'));
    body.append(line);
  }
  stages.forEach((stage, i) => {
    const cells = body.rows[i].cells;
    setText(cells[0], names[stage.name]);
    setText(cells[1], stage.lately.toFixed(2));
    const meter = cells[2].firstChild;
    meter.classList.toggle('engine', i > 3);
    meter.style.width = `${100 * stage.lately / most}%`;
    setText(cells[3], duration(stage.total));
  });
}

function showLanes(lanes) {
  setText($('lane-count'), lanes.matching === lanes.shown.length && lanes.matching === lanes.open ? `${count(lanes.open)} open`
    : `${count(lanes.open)} open, ${count(lanes.matching)} found, ${count(lanes.shown.length)} shown`);
  const body = $('lane-rows');
  while (body.rows.length > lanes.shown.length) body.lastChild.remove();
  while (body.rows.length < lanes.shown.length) {
    const line = row('', '');
    for (let i = 0; i < 5; i++) line.append(element('td'));
    for (let i = 1; i < 7; i++) line.cells[i].className = 'number';
    body.append(line);
  }
  lanes.shown.forEach((lane, i) => {
    const line = body.rows[i];
    const texts = [lane.name, count(lane.committed), count(lane.offset), count(lane.flight), lane.age ? duration(lane.age) : '–',
      lane.lag < 0 ? '–' : count(lane.lag), lane.share < 0 ? '–' : percent(lane.share)];
    texts.forEach((text, k) => setText(line.cells[k], text));
    line.classList.toggle('late', lane.age > 180);
  });
}

function statePath() {
  const asked = new URLSearchParams({find: $('lane-find').value, sort: $('lane-sort').value, limit: $('lane-limit').value});
  return `api/state?${asked}`;
}

let jobShown = false, asking = 0, timer;

// refresh asks again and again. Only the newest question is answered to.
async function refresh() {
  clearTimeout(timer);
  const mine = ++asking;
  if (!document.hidden) {
    try {
      const [state, job] = await Promise.all([ask(statePath()), jobShown ? null : ask('api/job')]);
      if (mine !== asking) return;
      if (job) {
        showJob(job);
        jobShown = true;
      }
      lastAnswer = Date.now();
      $('token-form').hidden = true;
      status(state.ready ? `Running for ${duration((state.time - state.started) / 1000)}` : 'Ending', !state.ready);
      showNow(state);
      showStages(state.stages);
      showLanes(state.lanes);
      await refreshCurves(state.time);
      const keptNow = JSON.stringify(state.kept);
      if (keptNow !== lastKept) {
        lastKept = keptNow;
        await searchRecords(state.kept);
      }
    } catch (error) {
      if (mine !== asking) return;
      refused(error);
    }
  }
  if (mine === asking) timer = setTimeout(refresh, stateEvery);
}

// Curves.
const charts = [
  ['words', {name: 'Words a second', format: short}],
  ['decoder', {name: 'Decoder full', format: percent, most: 1}],
  ['encoder', {name: 'Pieces of a mini-batch', format: short}],
  ['busy', {name: 'Workers busy', format: percent, most: 1}],
  ['lag', {name: 'Records behind', format: short}],
  ['age', {name: 'Oldest in flight', format: duration}],
  ['flight', {name: 'Records in flight', format: short}],
  ['memory', {name: 'Memory', format: size, unit: 2 ** 20}],
].map(([key, options]) => [key, new Chart($('charts'), options)]);
let span = '10m', curves = null, curvesAt = 0;

async function refreshCurves(now) {
  if (curves && now - curvesAt < Math.max(900, 1000 * curves.every)) return;
  const asked = span;
  const since = curves?.times.length ? `&since=${curves.times.at(-1)}` : '';
  const more = await ask(`api/history?span=${asked}${since}`);
  if (asked !== span) return;
  if (!curves) curves = more;
  else {
    for (const key of Object.keys(more)) {
      if (Array.isArray(more[key])) curves[key] = [...curves[key] ?? [], ...more[key]].slice(-kept[span]);
    }
  }
  curvesAt = now;
  const from = Math.max(now - spans[span], Math.min(curves.times[0] ?? now, now - 60e3)); // a job that has just begun fills the width
  for (const [key, chart] of charts) chart.draw(curves.times, curves[key] ?? [], from, now, curves.every);
}

$('span').addEventListener('change', (event) => {
  span = event.target.value;
  curves = null;
  refresh();
});

// Records.
let searching = 0, searchTimer;

async function searchRecords(total) {
  const mine = ++searching;
  const asked = new URLSearchParams({find: $('record-find').value, kind: $('record-kind').value});
  const found = await ask(`api/records?${asked}`);
  if (mine !== searching) return;
  if (total) searchRecords.total = total;
  const seen = searchRecords.total;
  setText($('record-count'), `${count(seen.failed)} failed and ${count(seen.flagged)} flagged since the start; ` +
    `${count(found.matching)} of the last ${count(found.kept)} found, ${count(found.shown.length)} shown`);
  $('record-rows').replaceChildren(...found.shown.map((record) => {
    const line = element('tr');
    const what = element('td', record.failed ? 'failed' : record.flags.join(', '), record.failed ? 'failed' : '');
    if (record.reason) what.append(element('div', record.reason));
    line.append(element('td', new Date(record.time).toLocaleTimeString([], {hour12: false}), 'time'), element('td', `${record.lane}, ${count(record.record)}`),
      what, element('td', record.text, 'text'), element('td', record.translation ?? '', 'text'));
    return line;
  }));
}

for (const name of ['record-find', 'record-kind']) {
  $(name).addEventListener('input', () => {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(() => searchRecords().catch(refused), 150);
  });
}
for (const name of ['lane-find', 'lane-sort', 'lane-limit']) $(name).addEventListener('input', refresh);

// A sentence.
function pieceList(name, pieces) {
  const list = element('ul', undefined, 'pieces');
  list.setAttribute('aria-label', name);
  for (const {piece, score} of pieces) {
    const item = element('li', piece);
    if (score !== undefined) item.append(element('small', percent(Math.exp(score))));
    list.append(item);
  }
  return list;
}

function alignmentTable(answer) {
  const region = element('div', undefined, 'scroll');
  region.tabIndex = 0;
  region.setAttribute('role', 'region');
  region.setAttribute('aria-label', 'Alignment');
  const table = element('table', undefined, 'alignment');
  table.append(element('caption', 'Alignment: how much each piece of the translation looks at each piece of the text, in per cent'));
  const head = element('tr');
  head.append(element('td', ''));
  for (const piece of answer.source) {
    const cell = element('th', piece);
    cell.scope = 'col';
    head.append(cell);
  }
  table.append(element('thead'), element('tbody'));
  table.tHead.append(head);
  answer.target.forEach(({piece}, i) => {
    const line = element('tr'), name = element('th', piece);
    name.scope = 'row';
    line.append(name);
    for (const weight of answer.alignment[i]) {
      const cell = element('td', String(Math.round(100 * weight)));
      cell.style.setProperty('--weight', weight);
      line.append(cell);
    }
    table.tBodies[0].append(line);
  });
  region.append(table);
  return region;
}

function showTrial(answer) {
  const parts = [element('p', answer.text, 'answer')];
  parts.push(element('p', `score ${answer.score.toFixed(3)}, ${Math.round(1000 * answer.seconds)} ms` +
    (answer.flags.length ? `, flags: ${answer.flags.join(', ')}` : ''), 'quiet'));
  if (answer.source) parts.push(element('h3', 'Pieces of the text', 'quiet'), pieceList('Pieces of the text', answer.source.map((piece) => ({piece}))));
  if (answer.target.length) parts.push(element('h3', 'Pieces of the translation, and how sure the model is of each', 'quiet'), pieceList('Pieces of the translation', answer.target));
  if (answer.alignment?.length) parts.push(alignmentTable(answer));
  $('try-answer').replaceChildren(...parts);
}

$('try-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  $('try-button').disabled = true;
  try {
    showTrial(await post('api/translate', {text: $('try-text').value}));
  } catch (error) {
    $('try-answer').replaceChildren(element('p', error.message, 'problem'));
  }
  $('try-button').disabled = false;
});
$('try-text').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) $('try-form').requestSubmit();
});

// The token, which is kept in this page's memory only, and the end of the job.
$('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value;
  refresh();
});
$('stop-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    await post('act/stop', {}, $('stop-token').value);
    setText($('stop-answer'), 'The job is ending.');
  } catch (error) {
    setText($('stop-answer'), error.message);
  }
});

document.addEventListener('visibilitychange', refresh);
refresh();
