// A terminal in a task: xterm.js, joined with a shell by a WebSocket.
const place = document.getElementById("terminal");
const state = document.getElementById("terminal-state");
const again = document.getElementById("terminal-again");
const csrf = document.querySelector('meta[name="csrf"]').content;
const PASTE = 16 * 1024; // bytes of a message

// xterm.js makes style sheets, which the page's policy takes by their nonce only.
const make = document.createElement.bind(document);
document.createElement = (name, ...rest) => {
  const made = make(name, ...rest);
  if (name === "style") made.nonce = place.dataset.nonce;
  return made;
};

const [{ Terminal }, { FitAddon }] = await Promise.all([import(place.dataset.xterm), import(place.dataset.fit)]);
const terminal = new Terminal({ cursorBlink: true, fontSize: 14, scrollback: 5000, screenReaderMode: true });
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(place);
fit.fit();

const encoder = new TextEncoder();
let socket = null;

const say = (text) => { state.textContent = text; };
const tell = (message) => {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(message);
};
const connect = () => {
  const address = new URL(place.dataset.session, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const mine = new WebSocket(address, [place.dataset.protocol + csrf]);
  let shown = 0;
  let over = "";
  mine.binaryType = "arraybuffer";
  mine.addEventListener("open", () => {
    mine.send(JSON.stringify({ rows: terminal.rows, columns: terminal.cols }));
    say("Connected. The session is in the audit log; what is typed and shown is not.");
    terminal.focus();
  });
  mine.addEventListener("message", (event) => {
    if (typeof event.data === "string") {
      over = JSON.parse(event.data).over;
      return;
    }
    const data = new Uint8Array(event.data);
    terminal.write(data, () => {
      shown += data.length;
      if (mine.readyState === WebSocket.OPEN) mine.send(JSON.stringify({ shown }));
    });
  });
  mine.addEventListener("close", () => {
    if (socket !== mine) return;
    socket = null;
    const text = over || "the connection is lost, or was refused: reload the page";
    say(`Not connected: ${text}.`);
    again.hidden = false;
  });
  socket = mine;
  again.hidden = true;
  say("Connecting…");
};

terminal.onData((text) => {
  const data = encoder.encode(text);
  for (let at = 0; at < data.length; at += PASTE) tell(data.subarray(at, at + PASTE));
});
terminal.onBinary((text) => tell(Uint8Array.from(text, (letter) => letter.charCodeAt(0) & 255)));
terminal.onResize(({ rows, cols }) => tell(JSON.stringify({ rows, columns: cols })));
new ResizeObserver(() => fit.fit()).observe(place);
again.addEventListener("click", () => {
  terminal.reset();
  connect();
});
addEventListener("pagehide", () => { if (socket) socket.close(); });
connect();
