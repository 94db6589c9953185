// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Targets that sleep. Only a push wakes them.
extension Drive {
    /// Orders a target to fall asleep, if one is awake.
    func begin(_ nap: Plan.Nap) {
        let order = (0..<plan.targets).map { Party.target((nap.target + $0) % plan.targets) }
        guard let party = order.first(where: { children[$0] != nil && !frozen.contains($0) && drowsy[$0] == nil }) else { return }
        drowsy[party] = nap.isFrozen
        children[party]?.tell(.fallAsleep)
    }

    /// A target has handled what waited, as a system's app has when it is suspended. More may have come since.
    func fallAsleep(_ party: Party, _ child: ChildProcess) {
        guard let isFrozen = drowsy.removeValue(forKey: party) else { return }
        write(isFrozen ? "freeze" : "sleep", "\(party)")
        ledger.fellAsleep(party)
        if isFrozen {
            frozen.insert(party)
            child.freeze()
        } else {
            ending[party] = children.removeValue(forKey: party)
            child.tell(.stop)
        }
    }

    /// How long after the expiry of a target's last command its app is opened. A wake for it may still be on its way.
    private static let openingDelay: Int64 = 20_000

    /// Opens the apps of sleeping targets, as a person does, where only expired commands have no outcome. No push comes for these, and the
    /// target alone knows whether it has handled them.
    func openForgotten() {
        for target in 0..<plan.targets where ledger.lastExpiry(at: target).map({ wallTime() > $0 + Self.openingDelay }) ?? false {
            let party = Party.target(target)
            guard frozen.contains(party) || children[party] == nil else { continue }
            write("open", "\(party)")
            wake(party)
        }
    }

    /// The push service delivers a push, as a system does: to the app if it runs, otherwise it starts the app.
    func deliver(_ push: PushService.Push) {
        guard let party = plan.parties.first(where: { "\($0)" == push.token }) else {
            return ledger.recordAnomaly("a push for nobody")
        }
        write("push", push.token)
        ledger.pushed()
        wake(party, for: push.data)
    }

    func wake(_ party: Party, for notification: [String: String]? = nil) {
        if let child = children[party] {
            if frozen.remove(party) != nil { child.resume() }
            return child.tell(notification.map { .notify($0) } ?? .networkChanged)
        }
        Task {
            do {
                try await self.start(party, joining: false, notification: notification)
            } catch {
                self.fail("\(party) cannot be started: \(error)")
            }
        }
    }
}
