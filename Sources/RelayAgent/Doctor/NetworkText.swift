// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a diagnosis of the network between two devices means for a person: what was seen, what it means, and what to do.
struct NetworkText {
    /// The other device, in quotes.
    let name: String
    /// The network that both are in.
    let network: String?
    /// Where the other device listens.
    let port: UInt16?

    func checks(of found: NetworkDiagnosis) -> [Doctor.Check] {
        [
            multicast(found.multicast), way(.outgoing, found.outgoing, from: "this device", to: name),
            way(.incoming, found.incoming, from: name, to: "this device"), clocks(found.clocks),
        ]
    }

    // MARK: Multicast

    private func multicast(_ found: NetworkDiagnosis.Multicast) -> Doctor.Check {
        switch found {
        case .works: return Doctor.Check(.multicast, .ok, "this device and \(name) hear each other's multicast DNS")
        case .blocked(let sides):
            let isHere = sides.contains(.here)
            let who =
                sides.count == 2 ? "neither this device nor \(name) hears" : isHere ? "this device does not hear" : "\(name) does not hear"
            let machine = sides.count == 2 ? "both machines" : isHere ? "this machine" : name
            return Doctor.Check(
                .multicast,
                .warning,
                "\(who) even its own multicast DNS, so the devices do not find each other: a firewall blocks it",
                advice: "on \(machine), permit UDP port 5353, in and out: sudo ufw allow 5353/udp, or sudo firewall-cmd --add-service=mdns"
            )
        case .filtered(let directions, let connects):
            let what =
                directions.count == 2
                ? "this device and \(name) do not hear each other's multicast DNS"
                : directions.contains(.outgoing)
                    ? "\(name) does not hear the multicast DNS of this device" : "this device does not hear the multicast DNS of \(name)"
            let rest =
                connects
                ? "the devices do not find each other by it, but connect directly where they know the address"
                : "the devices do not find each other"
            return Doctor.Check(
                .multicast,
                .warning,
                "\(what), though each hears its own: the network between them filters it; \(rest)",
                advice: "let the access point or switch pass multicast; its setting is often called multicast filter or IGMP snooping"
            )
        case .keptApart:
            return Doctor.Check(
                .multicast,
                .warning,
                "this device and \(name) do not hear each other's multicast DNS, though each hears its own: nothing passes between them"
            )
        case .otherNetwork:
            return Doctor.Check(.multicast, .skipped, "\(name) is in another network, and multicast DNS does not leave a network")
        case .untested:
            return Doctor.Check(
                .multicast,
                .skipped,
                "multicast DNS between this device and \(name) was not tested: \(name) is busy, or one of the systems does not show it (macOS, iOS)",
                advice: "if both run Linux, try again in a minute"
            )
        }
    }

    // MARK: Connections

    private func way(_ check: Doctor.Check.Name, _ found: NetworkDiagnosis.Way, from dialer: String, to dialled: String) -> Doctor.Check {
        let isOutgoing = check == .outgoing
        let place = isOutgoing ? "on \(name)" : "on this machine"
        switch found {
        case .works: return Doctor.Check(check, .ok, "\(dialer) connects directly to \(dialled)")
        case .refused:
            return Doctor.Check(
                check,
                .warning,
                "\(dialer) reaches \(dialled), but nothing listens there\(at(check)): its agent does not run or does not use the network, or a firewall refuses",
                advice: "restart the agent \(place), and permit it in the firewall there: \(firewall)"
            )
        case .notProved:
            return Doctor.Check(
                check,
                .warning,
                "\(dialer) reaches \(dialled)\(at(check)), but what listens there does not accept it now: it is busy, or another program",
                advice: "try again in a minute; if it lasts, restart the agent \(place)"
            )
        case .forbidden:
            return Doctor.Check(
                check,
                .warning,
                "\(dialer) may not connect to \(dialled): its own firewall forbids it",
                advice: "permit outgoing TCP in the firewall \(isOutgoing ? "on this machine" : "on \(name)")"
            )
        case .blocked:
            return Doctor.Check(
                check,
                .warning,
                "\(dialled) is there, but answers no connection of \(dialer)\(at(check)): the firewall \(place) drops it",
                advice: "\(place), permit TCP from this network, because the port changes: \(firewall)"
            )
        case .silent:
            return Doctor.Check(
                check,
                .warning,
                "\(dialled) answers no connection of \(dialer)\(at(check)): the firewall \(place) drops it, or the network keeps its clients apart",
                advice: "\(place), permit TCP from this network: \(firewall); or switch off client isolation at the access point"
            )
        case .keptApart(let mayBeElsewhere):
            let other = mayBeElsewhere ? ", or \(name) is in another network with the same numbers" : ""
            return Doctor.Check(
                check,
                .warning,
                "\(dialer) finds no neighbour at the addresses of \(dialled): the access point keeps its clients apart\(other)",
                advice:
                    "switch off client isolation (AP isolation) at the access point, or leave its guest network; until then the relay connects the devices"
            )
        case .otherNetwork(sharesLink: true):
            return Doctor.Check(
                check,
                .warning,
                "this device and \(name) are on one network, but have addresses of different ones: \(dialer) does not reach \(dialled)",
                advice: "let both get their addresses from the same router (DHCP)"
            )
        case .otherNetwork(sharesLink: false):
            return Doctor.Check(
                check,
                .skipped,
                "\(name) is in no network of this device, and \(dialer) does not reach \(dialled) through a router; the relay connects them"
            )
        case .untested where isOutgoing && port == nil:
            return Doctor.Check(
                check,
                .warning,
                "\(name) takes no direct connections now",
                advice: "restart the agent on \(name)"
            )
        case .untested:
            return Doctor.Check(
                check,
                .skipped,
                isOutgoing ? "\(name) names no address that this device dials" : "\(name) has dialled no address of this device now",
                advice: isOutgoing ? nil : "a device dials for a test once in 10 s: try again"
            )
        }
    }

    /// The own port is one for this test only.
    private func at(_ check: Doctor.Check.Name) -> String {
        guard check == .outgoing, let port else { return "" }
        return " at TCP port \(port)"
    }

    /// The ports that Linux gives to listeners without a port of their own.
    private var firewall: String { "sudo ufw allow proto tcp from \(network ?? "any") to any port 32768:60999" }

    // MARK: Clocks

    private func clocks(_ found: NetworkDiagnosis.Clocks) -> Doctor.Check {
        let advice = "correct the clock that is wrong, preferably with NTP: sudo timedatectl set-ntp true"
        func difference(_ ahead: Int64) -> String {
            let size = ClockDifference.size(ofSeconds: Int(clamping: (ahead.magnitude + 500) / 1_000))
            return "the clock of \(name) is \(size) \(ahead > 0 ? "ahead of" : "behind") that of this device"
        }
        switch found {
        case .agree: return Doctor.Check(.clocks, .ok, "the clocks of both devices agree")
        case .differ(let ahead): return Doctor.Check(.clocks, .warning, "\(difference(ahead)); that hinders nothing now", advice: advice)
        case .otherHour(let ahead):
            return Doctor.Check(
                .clocks,
                .warning,
                "\(difference(ahead)), so the devices do not recognise each other on the network: their tags hold for an hour",
                advice: advice
            )
        }
    }
}
