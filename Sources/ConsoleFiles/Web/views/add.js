// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The three ways in which a device joins the account.

import { button, h, icon, s, say, sentence } from "../dom.js";
import { attempt } from "../question.js";
import { address, inTurn } from "../router.js";
import { duration, shell, t } from "../text.js";

export async function show({ model, body, on, signal }) {
    const joined = h("div", { role: "status" });
    body.replaceChildren(joined, h("p", {}, t("add.text")), ...ways({ model, signal }));
    const before = new Set((await model.devices()).devices.map((each) => each.id));
    on(["device", "ask", "reset"], inTurn(async () => {
        const { devices } = await model.devices();
        joined.replaceChildren(...devices.filter((each) => !before.has(each.id)).map(({ id, title, new: isNew }) => h("p", { class: "note" },
            t(isNew ? "add.joined.new" : "add.joined", { name: title }), " ",
            h("a", { href: address("device", [id]) }, t(isNew ? "device.look" : "add.joined.see")))));
    }));
}

/** The ways, as cards. */
export function ways({ model, signal }) {
    const all = h("ol", { class: "cards ways" },
        h("li", { class: "card" }, h("h2", {}, icon("desktop"), t("add.computer")), h("p", {}, sentence(t("add.computer.text"))),
            invitation("computer")),
        h("li", { class: "card" }, h("h2", {}, icon("phone"), t("add.phone")), h("p", {}, t("add.phone.text")), invitation("phone")));
    model.about().then(addLogin).catch(() => {});
    return [all];

    /** A device without an account at a relay has no sign-in. */
    function addLogin({ relay, relayID }) {
        if (!relay) return;
        const command = `relay login ${shell(`${relay.replace(/\/$/, "")}/#relay=${relayID}`)}`;
        all.append(h("li", { class: "card" }, h("h2", {}, icon("hub"), t("add.login")), h("p", {}, t("add.login.text")),
            far(relay) ?? h("pre", { tabindex: "0" }, command)));
    }

    function invitation(kind) {
        const place = h("div", {}, button(t("add.invite"), make,
            { look: kind === "computer" ? "primary" : undefined, label: t(`add.${kind}.invite`) }));
        return place;

        async function make() {
            const made = await attempt(place, () => model.invite());
            if (!made) return;
            const end = Date.now() + made.expiresIn * 1_000;
            const clock = h("p", { class: "meta", role: "timer" });
            const link = (kind === "phone" && made.browserLink) || made.link;
            const text = kind === "computer" ? `relay join ${shell(link)}` : link;
            const shown = h("pre", { tabindex: "0" }, text);
            const copy = button(t("copy"), async () => {
                try {
                    await navigator.clipboard.writeText(text);
                    copy.textContent = t("copied");
                    say(t("copied"));
                } catch {
                    getSelection().selectAllChildren(shown);
                    say(t("copy.byHand"));
                }
            }, { look: kind === "computer" ? "primary" : undefined });
            place.replaceChildren(...[far(link), kind === "phone" && await drawCode(link), h("div", { class: "buttons" }, copy), shown,
                clock].filter(Boolean));
            shown.focus();
            const timer = setInterval(tick, 1_000);
            signal.addEventListener("abort", () => clearInterval(timer), { once: true });
            tick();

            function tick() {
                const seconds = Math.round((end - Date.now()) / 1_000);
                if (seconds > 0) return void (clock.textContent = t("add.left", { time: duration(seconds) }));
                clearInterval(timer);
                place.replaceChildren(h("p", { class: "quiet" }, t("add.over")), button(t("add.again"), make));
            }
        }
    }
}

/** What to do if only this machine can reach the place where a link leads. */
function far(link) {
    const { origin, hostname, port } = new URL(link);
    if (!/^(localhost|127\..*|\[::1\])$/.test(hostname)) return undefined;
    return h("p", { class: "note alarm" }, sentence(t("add.loopback", { relay: origin, port: port || "80" })));
}

/** A QR code as one path: dark on light in every theme, because readers expect that. */
async function drawCode(text) {
    const { default: qrcode } = await import("../vendor/qrcode.js");
    const made = qrcode(0, "M");
    made.addData(text, "Byte");
    made.make();
    const count = made.getModuleCount();
    let path = "";
    for (let y = 0; y < count; y += 1) for (let x = 0; x < count; x += 1) if (made.isDark(y, x)) path += `M${x + 4} ${y + 4}h1v1h-1z`;
    return s("svg", { class: "qr", viewBox: `0 0 ${count + 8} ${count + 8}`, role: "img", "aria-label": t("add.qr") },
        s("rect", { width: count + 8, height: count + 8, fill: "#fff" }),
            s("path", { d: path, fill: "#000", "shape-rendering": "crispEdges" }));
}
