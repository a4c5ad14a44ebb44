"use strict";
// The token comes behind # and is sent in a header. It stays in this tab, and not in its address.
if (location.hash.length > 1) {
  sessionStorage.setItem("token", location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
const place = document.getElementById("calls");
const heading = document.getElementById("heading");
const said = document.getElementById("said");
const READ_BEFORE = 600; // milliseconds in which a key that was meant for the call before it does nothing
const LOOK = 300; // milliseconds between two looks at the queue
let focused = 0;

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("token") ?? ""}` };
  const options = body === undefined ? { headers } : { headers, method: "POST", body: new URLSearchParams(body) };
  const response = await fetch(path, { ...options, credentials: "omit", redirect: "error" });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error), { status: response.status });
  return answer;
}

function move(from, step) {
  const cards = [...place.children];
  const next = cards[Math.min(Math.max(cards.indexOf(from) + step, 0), cards.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

async function answer(card, yes) {
  if (card.dataset.answered) return;
  card.dataset.answered = "true";
  const reason = yes ? "" : card.querySelector("[name=reason]").value;
  try {
    const grant = yes ? card.querySelector("[name=grant]")?.value ?? "" : "";
    const answer = yes ? "yes" : "no";
    await ask(`/call/${card.dataset.id}`, { answer, reason, grant });
    said.textContent = `${card.getAttribute("aria-label")}: ${answer}`;
  } catch (error) {
    said.textContent = error.message;
    if (!error.status) delete card.dataset.answered; // it did not arrive
  }
}

function show(calls, count) {
  const wanted = new Set(calls.map((call) => call.id));
  const had = document.activeElement?.closest?.(".call");
  for (const card of [...place.children]) {
    if (wanted.has(card.dataset.id)) continue;
    if (!card.dataset.answered) {
      ask(`/call/${card.dataset.id}`).then((found) => { said.textContent = found.end; }, () => {});
    }
    if (card === had) move(card, card.nextElementSibling ? 1 : -1);
    card.remove();
  }
  const shown = new Set([...place.children].map((card) => card.dataset.id));
  for (const call of calls) {
    if (shown.has(call.id)) continue;
    const made = document.createElement("template");
    made.innerHTML = call.html; // the server has escaped all that is not its own
    const card = made.content.firstElementChild;
    card.dataset.id = call.id;
    place.append(card);
  }
  const more = count > calls.length ? `, ${calls.length} of them here` : "";
  heading.textContent = count ? `${count} ${count === 1 ? "call waits" : "calls wait"} for you${more}` : "No call waits for you";
  document.title = count ? `(${count}) Approvals` : "Approvals";
}

place.addEventListener("submit", (event) => {
  event.preventDefault();
  answer(event.target.closest(".call"), event.submitter?.value === "yes");
});
place.addEventListener("focusin", () => { focused = Date.now(); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches?.("input, select")) return;
  const card = event.target.closest?.(".call");
  if (event.key === "j") move(card, 1);
  else if (event.key === "k") move(card, -1);
  else if (card && Date.now() - focused < READ_BEFORE) return;
  else if (card && event.key === "y") answer(card, true);
  else if (card && event.key === "n") answer(card, false);
  else if (card && event.key === "r") card.querySelector("[name=reason]").focus();
  else return;
  event.preventDefault();
});

(async () => {
  for (let version = ""; ;) {
    try {
      const now = await ask(`/calls?since=${encodeURIComponent(version)}`);
      version = now.version;
      if (now.calls) show(now.calls, now.count);
      await new Promise((wake) => { setTimeout(wake, LOOK); });
    } catch (error) {
      heading.textContent = error.status ? error.message : "The page's program does not answer";
      version = "";
      if (error.status === 401) return;
      await new Promise((wake) => { setTimeout(wake, 2000); });
    }
  }
})();
