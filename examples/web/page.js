// The page: it asks the library (src/) for everything that is computed, and draws what it gives.
import init, { Training, facts, open } from './pkg/kiln_web.js';

const STEPS = 10, EPOCHS = 60, SIDE = 32, BLOCK = 4;
const find = (name) => document.getElementById(name);
const [device, train, reset, state, pad, answer] = ['device', 'train', 'reset', 'state', 'pad', 'answer'].map(find);

let digits = '', training = null, running = false, busy = false, losses = [];

const say = (text, wrong = false) => {
    state.textContent = text;
    state.classList.toggle('wrong', wrong);
};
const element = (name, text = '', kind = '') => {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = kind;
    return made;
};
/** Runs one computation at a time: the library is not entered twice. */
const alone = async (compute) => {
    while (busy) await new Promise((next) => setTimeout(next, 4));
    busy = true;
    try { return await compute(); } finally { busy = false; }
};

// Learning

const begin = async () => {
    running = false;
    [train.disabled, reset.disabled, find('sample').disabled] = [true, true, true];
    try {
        await alone(async () => {
            await open(device.value);
            training?.free();
            training = new Training(device.value, digits);
        });
    } catch (error) {
        if (device.value === 'cpu') return say(String(error), true);
        device.value = 'cpu';
        device.options[0].disabled = true;
        await begin();
        return say('This browser offers no WebGPU here, so the CPU computes. ' + state.textContent);
    }
    losses = [];
    ['loss', 'accuracy', 'step'].forEach((name) => find(name).textContent = '–');
    find('epoch').textContent = 0;
    find('kernels').replaceChildren(element('p', 'Train first.', 'hint'));
    [train.disabled, reset.disabled, find('sample').disabled] = [false, false, false];
    train.textContent = 'Train';
    say('Ready. The network has seen nothing yet.');
    curve();
    tellFacts();
    await read();
};

const epoch = async () => {
    const started = performance.now();
    losses.push(await alone(() => training.epoch()));
    const took = (performance.now() - started) / STEPS;
    const accuracy = await alone(() => training.accuracy());
    find('epoch').textContent = losses.length;
    find('loss').textContent = losses.at(-1).toFixed(3);
    find('accuracy').textContent = (100 * accuracy).toFixed(1) + ' %';
    find('step').textContent = took.toFixed(1) + ' ms';
    curve();
    if (losses.length === 1) tellPlan();
    tellFacts();
    await read();
};

const learn = async () => {
    running = !running;
    train.textContent = running ? 'Pause' : 'Go on';
    if (!running) return say('Paused.');
    say(losses.length ? 'Learning.' : 'Compiling the kernels of a step.');
    const until = (Math.floor(losses.length / EPOCHS) + 1) * EPOCHS;
    try {
        while (running && losses.length < until) {
            await epoch();
            if (running) say('Learning.');
            await new Promise((next) => setTimeout(next));
        }
        if (running) say('It has seen every digit ' + losses.length + ' times. Draw one.');
    } catch (error) {
        say(String(error), true);
    }
    if (losses.length >= until) train.textContent = 'Train on';
    running = false;
};

const curve = () => {
    const most = Math.max(2.5, ...losses), count = Math.max(EPOCHS, losses.length);
    const x = (at) => 34 + 356 * at / count, y = (loss) => 130 - 120 * loss / most;
    const at = (loss) => `<line x1="34" x2="390" y1="${y(loss)}" y2="${y(loss)}"/><text x="28" y="${y(loss) + 4}" text-anchor="end">${loss}</text>`;
    const label = `<text x="34" y="147">epoch 1</text><text x="390" y="147" text-anchor="end">${count}</text>`;
    find('axes').innerHTML = [0, 1, 2].map(at).join('') + label;
    find('line').setAttribute('points', losses.map((loss, epoch) => `${x(epoch + 1)},${y(loss)}`).join(' '));
    const told = losses.length ? `from ${losses[0].toFixed(2)} to ${losses.at(-1).toFixed(3)} in ${losses.length}` : 'none yet';
    find('curve').setAttribute('aria-label', 'Mean loss of each epoch: ' + told);
};

const tellPlan = () => {
    const kernel = (line) => {
        const [name, shape, bytes, code] = line.split('\t');
        const [made, head] = [element('details'), element('summary')];
        head.append(element('b', name), element('span', `${shape} · ${(bytes / 1024).toFixed(1)} KiB moved`));
        const text = element('pre', code.replaceAll('\f', '\n'));
        text.tabIndex = 0;
        made.append(head, text);
        return made;
    };
    find('kernels').replaceChildren(...training.plan().trimEnd().split('\n').map(kernel));
};

const tellFacts = () => {
    const fact = (line) => line.split('\t').map((text, at) => element(at ? 'dd' : 'dt', text));
    find('facts').replaceChildren(...facts(device.value).trimEnd().split('\n').flatMap(fact));
};

// Drawing

const ink = new Uint8Array(SIDE * SIDE), pen = pad.getContext('2d');
let last = null, key = { x: SIDE / 2, y: SIDE / 2, down: false, shown: false };

const paint = () => {
    const image = pen.createImageData(SIDE, SIDE);
    ink.forEach((set, at) => image.data.set(set ? [255, 180, 110, 255] : [17, 17, 17, 255], 4 * at));
    pen.putImageData(image, 0, 0);
    if (key.shown) {
        pen.fillStyle = key.down ? '#fff' : '#888';
        pen.fillRect(key.x, key.y, 1, 1);
    }
};
const dot = (x, y) => {
    for (let row = -1; row <= 1; row++) for (let column = -1; column <= 1; column++) {
        const [at, below] = [Math.round(x) + column, Math.round(y) + row];
        if (at >= 0 && at < SIDE && below >= 0 && below < SIDE) ink[SIDE * below + at] = 1;
    }
};
const stroke = (to) => {
    const from = last ?? to, length = Math.max(1, Math.ceil(Math.hypot(to.x - from.x, to.y - from.y)));
    for (let i = 0; i <= length; i++) dot(from.x + (to.x - from.x) * i / length, from.y + (to.y - from.y) * i / length);
    last = to;
    changed();
};
/** As the digits were made: of 32 x 32 points, those set in each block of 4 x 4. */
const pixels = () => Float32Array.from({ length: 64 }, (_, at) => {
    let set = 0;
    for (let i = 0; i < BLOCK * BLOCK; i++) {
        set += ink[SIDE * (BLOCK * (at >> 3) + (i >> 2)) + BLOCK * (at & 7) + (i & 3)];
    }
    return set / (BLOCK * BLOCK);
});

/** Draws an image of 8 x 8: as many points of each block as its pixel says, those nearest to dense neighbors. */
const show = (image) => {
    const pixel = (x, y) => (x < 0 || x > 7 || y < 0 || y > 7 ? 0 : image[8 * y + x]);
    const density = (x, y) => {
        const [left, top] = [Math.floor(x), Math.floor(y)], [right, below] = [x - left, y - top];
        const row = (at) => pixel(left, at) * (1 - right) + pixel(left + 1, at) * right;
        return row(top) * (1 - below) + row(top + 1) * below;
    };
    ink.fill(0);
    for (let at = 0; at < 64; at++) {
        const points = Array.from({ length: BLOCK * BLOCK }, (_, i) => {
            const [x, y] = [BLOCK * (at & 7) + (i & 3), BLOCK * (at >> 3) + (i >> 2)];
            return [density((x + .5) / BLOCK - .5, (y + .5) / BLOCK - .5), SIDE * y + x];
        });
        points.sort((a, b) => b[0] - a[0]).slice(0, image[at]).forEach(([, point]) => ink[point] = 1);
    }
    changed();
};

let again = false;
const changed = () => {
    paint();
    if (again) return;
    again = true;
    requestAnimationFrame(() => { again = false; read(); });
};
const bars = Array.from({ length: 10 }, (_, digit) => {
    const [item, bar, fill, share] = [element('li'), element('span', '', 'bar'), element('i'), element('span', '')];
    bar.append(fill);
    item.append(element('span', digit), bar, share);
    find('bars').append(item);
    return { item, fill, share };
});
const read = async () => {
    const empty = !ink.includes(1);
    pad.setAttribute('aria-label', 'Drawing pad, ' + (empty ? 'empty' : 'with a drawing'));
    if (!training || empty) {
        bars.forEach(({ item, fill, share }) => { item.className = share.textContent = ''; fill.style.width = 0; });
        answer.textContent = 'Draw, or have one shown.';
        return;
    }
    try {
        const likely = await alone(() => training.classify(pixels()));
        const best = likely.indexOf(Math.max(...likely));
        bars.forEach(({ item, fill, share }, digit) => {
            item.className = digit === best ? 'best' : '';
            fill.style.width = share.textContent = Math.round(100 * likely[digit]) + '%';
        });
        const text = losses.length ? `It reads ${best}.` : `It guesses ${best}: it has learned nothing.`;
        if (answer.textContent !== text) answer.textContent = text;
    } catch (error) {
        say(String(error), true);
    }
};

const position = (event) => {
    const box = pad.getBoundingClientRect();
    return { x: SIDE * (event.clientX - box.left) / box.width - .5, y: SIDE * (event.clientY - box.top) / box.height - .5 };
};
const clear = () => { ink.fill(0); last = null; key.shown = false; changed(); };
pad.addEventListener('pointerdown', (event) => {
    pad.setPointerCapture(event.pointerId);
    key.shown = false;
    last = null;
    stroke(position(event));
});
pad.addEventListener('pointermove', (event) => { if (event.buttons) stroke(position(event)); });
pad.addEventListener('keydown', (event) => {
    const [right, below] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (!right && !below && event.key !== ' ') return;
    event.preventDefault();
    const within = (at) => Math.min(SIDE - 1, Math.max(0, at));
    key = { x: within(key.x + right), y: within(key.y + below), down: event.key === ' ' ? !key.down : key.down, shown: true };
    last = null;
    if (key.down) stroke(key); else paint();
});
pad.addEventListener('blur', () => { key.shown = key.down = false; paint(); });
find('clear').addEventListener('click', clear);
find('sample').addEventListener('click', () => {
    // One that it does not learn from.
    const lines = digits.trimEnd().split('\n');
    show(lines[1000 + Math.floor(Math.random() * (lines.length - 1000))].split(',').map(Number));
});
train.addEventListener('click', learn);
reset.addEventListener('click', begin);
device.addEventListener('change', begin);

paint();
curve();
try {
    await init();
    const packed = (await fetch('data/digits.csv.gz')).body;
    digits = await new Response(packed.pipeThrough(new DecompressionStream('gzip'))).text();
    if (!navigator.gpu) { device.value = 'cpu'; device.options[0].disabled = true; }
    await begin();
} catch (error) {
    say(String(error), true);
}
