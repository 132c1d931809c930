// The playground: asks through the portal, shows the answer as it comes, and its figures.

import { Lines } from "./lib/ndjson.js";

const place = document.getElementById("playground");

if (place) {
  const words = JSON.parse(document.getElementById("playground-words").textContent);
  const language = document.documentElement.lang;
  const talk = document.getElementById("talk");
  const form = document.getElementById("ask");
  const send = document.getElementById("send");
  const halt = document.getElementById("halt");
  const csrf = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
  const said = [];
  let broken = null;

  /** The button follows the state above, which htmx replaces. */
  const settle = () => {
    const serves = document.getElementById("state")?.hasAttribute("data-serves");
    send.disabled = !serves || broken !== null;
    halt.hidden = broken === null;
  };

  const turn = (who, text, mine) => {
    const box = document.createElement("div");
    const head = document.createElement("div");
    const name = document.createElement("span");
    const figures = document.createElement("span");
    const body = document.createElement("div");
    box.className = mine ? "turn mine" : "turn";
    head.className = "turn-who";
    body.className = "turn-text";
    name.textContent = who;
    body.textContent = text;
    head.append(name, figures);
    box.append(head, body);
    talk.append(box);
    talk.scrollTop = talk.scrollHeight;
    return { box, figures, body };
  };

  const number = (value, digits = 0) => value.toLocaleString(language, { maximumFractionDigits: digits });

  const told = (done) => {
    const parts = [words.first.replace("{n}", number(done.first * 1000))];
    if (done.rate) parts.push(words.rate.replace("{n}", number(done.rate, 1)));
    parts.push(words.tokens.replace("{n}", number(done.tokens)));
    if (done.finish === "length") parts.push(words.cut);
    return parts.join(" · ");
  };

  const fail = (answer, text, raw) => {
    answer.box.classList.add("failed");
    answer.body.textContent = answer.body.textContent ? `${answer.body.textContent}\n${text}` : text;
    if (raw && raw !== text) {
      const small = document.createElement("div");
      small.className = "caption quiet";
      small.textContent = raw;
      answer.box.append(small);
    }
  };

  const heard = (answer, line) => {
    if (line.t === "delta") {
      const near = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
      answer.body.textContent += line.text;
      if (near) talk.scrollTop = talk.scrollHeight;
    } else if (line.t === "done") {
      answer.figures.textContent = told(line);
      said.push({ role: "assistant", content: answer.body.textContent });
    } else if (line.t === "error") {
      fail(answer, line.text, line.raw);
    }
  };

  const ask = async (question) => {
    document.getElementById("playground-note").hidden = true;
    turn(words.you, question, true);
    said.push({ role: "user", content: question });
    const answer = turn(place.dataset.model, "", false);
    broken = new AbortController();
    settle();
    const before = said.length;
    try {
      const response = await fetch(place.dataset.url, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRFToken": csrf },
        body: JSON.stringify({
          messages: said.slice(-20),
          temperature: Number(form.elements.temperature.value),
          max_tokens: Number(form.elements.max_tokens.value),
        }),
        signal: broken.signal,
      });
      const kind = response.headers.get("Content-Type") ?? "";
      if (!response.body || !kind.includes("json")) throw new TypeError("no stream");
      const lines = new Lines();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        for (const line of done ? lines.end() : lines.feed(value)) heard(answer, line);
        if (done) break;
      }
      if (said.length === before && !answer.box.classList.contains("failed")) fail(answer, words.failed);
    } catch (error) {
      fail(answer, error.name === "AbortError" ? words.stopped : words.failed);
    }
    // A question without an answer is not told again with the next one.
    if (said.length === before) said.pop();
    broken = null;
    settle();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = form.elements.question;
    const question = field.value.trim();
    if (!question || send.disabled) return;
    field.value = "";
    ask(question);
  });
  form.elements.question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  halt.addEventListener("click", () => broken?.abort());
  document.body.addEventListener("htmx:afterSettle", settle);
  settle();
}
