// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The console: the session, the header, the navigation, and the agent's events.

import { button, card, entitle, h, say, sentence } from "./dom.js";
import { LocalModel } from "./model/local.js";
import { problemNote, problemText } from "./question.js";
import { address, inTurn, MAIN_VIEWS, Router } from "./router.js";
import { loadWords, t } from "./text.js";
import { drawAsks } from "./views/requests.js";

const main = document.getElementById("main");
const place = document.getElementById("place");
const navigation = document.getElementById("views");
const skip = document.querySelector(".skip");
const lost = document.getElementById("lost");
const band = document.getElementById("band");

const model = new LocalModel();
const router = new Router(main, model, mark);
const KEY = /^#key=([\w-]+)$/;
const signOut = button("", () => model.signOut(), { minor: true });
const badge = h("b", { class: "count", hidden: true });

let shownAsks;

/** Shows what waits for an answer above each view, besides the one that shows nothing else. */
function drawBand(view) {
    if (!model.isSignedIn || view === "requests") {
        shownAsks?.left.abort();
        shownAsks = undefined;
        band.replaceChildren();
        band.hidden = true;
        return;
    }
    // The view below is another one: an answer that was meant for something there does not count.
    if (shownAsks) return void shownAsks.drawn.then(({ moved }) => moved());
    const left = new AbortController();
    const on = (types, action) => model.on(types, action, left.signal);
    shownAsks = { left, drawn: drawAsks(band, { model, on, signal: left.signal }, true) };
}

/** Marks the view in the navigation. */
function mark(view) {
    drawBand(view);
    const link = address(["device", "open", "call", "files", "add"].includes(view) ? "devices" : view);
    for (const each of navigation.querySelectorAll("a")) {
        if (each.getAttribute("href") === link) each.setAttribute("aria-current", "page");
        else each.removeAttribute("aria-current");
    }
}

function drawNavigation() {
    navigation.replaceChildren(h("ul", {}, MAIN_VIEWS.map((view) =>
        h("li", {}, h("a", { href: address(view) }, t(`view.${view}`), view === "requests" && badge)))));
    navigation.hidden = false;
    place.after(signOut);
}

async function drawPlace() {
    const about = await model.about();
    const device = about.name ?? (await model.devices()).devices.find((each) => each.local)?.name;
    const name = about.operator ?? about.accountName;
    const here = [device, about.relay?.replace(/^https?:\/\//, "")].filter(Boolean).join(" · ");
    place.replaceChildren(...[name && h("b", {}, name), here && h("span", {}, here)].filter(Boolean));
}

let known = new Set();

/** Counts what waits for an answer, and says so when something new does. */
const countRequests = inTurn(async () => {
    const { asks } = await model.asks().catch(() => ({ asks: [] }));
    const more = asks.some(({ id }) => !known.has(id));
    known = new Set(asks.map(({ id }) => id));
    badge.textContent = asks.length;
    badge.hidden = !asks.length;
    badge.setAttribute("aria-label", t("requests.count", { count: asks.length }));
    entitle({ count: asks.length });
    if (more) say(t("requests.count", { count: asks.length }));
});

/** What is shown without a session. */
function drawSignedOut(error) {
    router.stop();
    drawBand();
    navigation.hidden = true;
    signOut.remove();
    place.replaceChildren();
    lost.replaceChildren();
    const title = h("h1", { tabindex: "-1" }, t("signedOut.title"));
    main.replaceChildren(h("div", { class: "card slim" }, title, error && problemNote(error),
        h("p", {}, t("signedOut.text")), h("pre", {}, "relay console"), h("p", { class: "quiet small" }, t("signedOut.why"))));
    entitle({ view: t("signedOut.title"), count: 0 });
    title.focus();
}

async function begin() {
    await loadWords();
    signOut.textContent = t("signOut");
    navigation.setAttribute("aria-label", t("page.views"));
    band.setAttribute("aria-label", t("view.requests"));
    skip.textContent = t("page.skip");
    skip.addEventListener("click", (event) => {
        event.preventDefault();
        main.focus();
    });
    model.addEventListener("ended", ({ detail }) => drawSignedOut(detail));
    // A new link in an open tab changes nothing but the address.
    addEventListener("hashchange", () => KEY.test(location.hash) && location.reload());
    const key = location.hash.match(KEY)?.[1];
    // The key leaves the address, and so the history, before anything else happens.
    if (key) history.replaceState(null, "", `${location.pathname}#/devices`);
    try {
        if (key) await model.signIn(key);
    } catch (error) {
        return drawSignedOut(error);
    }
    if (!model.isSignedIn) return drawSignedOut();
    model.addEventListener("lost", ({ detail }) => lost.replaceChildren(h("p", { class: "note alarm" }, sentence(problemText(detail)))));
    model.addEventListener("found", () => {
        if (!lost.hasChildNodes()) return;
        lost.replaceChildren();
        model.dispatchEvent(new Event("reset"));
    });
    for (const type of ["ask", "reset"]) model.addEventListener(type, countRequests);
    drawNavigation();
    const shown = router.show();
    await Promise.all([shown, drawPlace().catch(() => {}), countRequests()]);
    if (model.isSignedIn) model.follow();
}

begin().catch((error) => main.replaceChildren(card(undefined, problemNote(error))));
