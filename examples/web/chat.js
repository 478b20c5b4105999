// The language model's panel: the library that has one (src/chat.rs) is loaded when a file is chosen, or named by
// the page's address: index.html?model=ADDRESS.

const MOST = 200;
const find = (name) => document.getElementById('chat-' + name);
const [panel, device, file, state, form, prompt, send, stop, said] =
    ['panel', 'device', 'file', 'state', 'form', 'prompt', 'send', 'stop', 'said'].map(find);

let library = null, model = null, stopped = false;
/** A file, or the address of one. */
let chosen = null;
/** What the panel is at: nothing, loading a file, ready for a question, or answering. */
let at = 'nothing';

const say = (text, wrong = false) => {
    state.textContent = text;
    state.classList.toggle('wrong', wrong);
};
const reason = (error) => (error instanceof Error ? error.message : String(error));
/** What the browser does between two tokens: it draws them, and hears the visitor. */
const turn = () => new Promise((next) => setTimeout(next));
const turnTo = (next) => {
    at = next;
    prompt.disabled = at !== 'ready' && at !== 'answering';
    send.disabled = at !== 'ready';
    stop.disabled = at !== 'answering';
    device.disabled = file.disabled = at === 'loading' || at === 'answering';
};

/** Opens the device; the CPU where the browser has no GPU to give. */
const open = async () => {
    try {
        await library.open(device.value);
    } catch (error) {
        if (device.value === 'cpu') throw error;
        device.value = 'cpu';
        device.options[0].disabled = true;
        await library.open(device.value);
    }
};

const load = async () => {
    if (!chosen || at === 'loading' || at === 'answering') return;
    turnTo('loading');
    model?.free();
    model = null;
    try {
        say('Loading the library.');
        library ??= await import('./chat/kiln_web.js').then(async (made) => { await made.default(); return made; });
        const whole = chosen instanceof File;
        say(whole ? `Reading ${chosen.name}, ${(chosen.size / 1e6).toFixed(1)} MB.` : `Reading ${chosen}.`);
        const started = performance.now();
        await open();
        model = whole
            ? await library.Chat.open(chosen, chosen.name, device.value)
            : await library.Chat.fetch(chosen, device.value);
        say(`${model.describe()}, read in ${((performance.now() - started) / 1000).toFixed(1)} s.`);
        turnTo('ready');
        prompt.focus();
    } catch (error) {
        say(reason(error), true);
        turnTo('nothing');
    }
};

const paragraph = (who, text) => {
    const made = document.createElement('p');
    made.className = who;
    made.textContent = text;
    said.append(made);
    return made;
};

const answer = async () => {
    const text = prompt.value.trim();
    if (!text || at !== 'ready') return;
    paragraph('you', text);
    const shown = paragraph('model', '');
    // A screen reader reads the answer when it is whole.
    said.setAttribute('aria-busy', 'true');
    stopped = false;
    turnTo('answering');
    say('Reading the question.');
    const started = performance.now();
    let first = 0;
    const show = async (piece, count) => {
        const now = performance.now();
        if (!first) {
            first = now;
            find('first').textContent = ((first - started) / 1000).toFixed(1) + ' s';
            say('Answering.');
        }
        shown.textContent += piece;
        find('tokens').textContent = count;
        if (count > 1) find('rate').textContent = ((count - 1) / (now - first) * 1000).toFixed(1);
        said.scrollTop = said.scrollHeight;
        await turn();
        return !stopped;
    };
    await turn();
    try {
        const [read, written] = await model.answer(text, MOST, show);
        find('read').textContent = read;
        find('tokens').textContent = written;
        say(stopped ? 'Stopped.' : written < MOST ? 'Done.' : `Ended after ${MOST} tokens.`);
    } catch (error) {
        say(reason(error), true);
    }
    said.removeAttribute('aria-busy');
    prompt.value = '';
    turnTo('ready');
    prompt.focus();
};

form.addEventListener('submit', (event) => { event.preventDefault(); answer(); });
stop.addEventListener('click', () => { stopped = true; });
file.addEventListener('change', () => { chosen = file.files[0] ?? chosen; load(); });
device.addEventListener('change', load);
panel.addEventListener('dragover', (event) => {
    event.preventDefault();
    panel.classList.add('over');
});
panel.addEventListener('dragleave', () => panel.classList.remove('over'));
panel.addEventListener('drop', (event) => {
    event.preventDefault();
    panel.classList.remove('over');
    if (at === 'loading' || at === 'answering') return;
    chosen = event.dataTransfer.files[0] ?? chosen;
    load();
});
chosen = new URLSearchParams(location.search).get('model');
if (!navigator.gpu) { device.value = 'cpu'; device.options[0].disabled = true; }
load();
