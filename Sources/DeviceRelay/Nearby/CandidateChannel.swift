// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Tells the other sides of this endpoint's tunnels where it listens, and takes what they say: through a relay that passes it on. It serves
/// networks on which devices do not see each other.
final class CandidateChannel {
    private let control: any ControlSending
    private let nearby: NearbyNetwork
    private var exchange: CandidateExchange
    /// Whether the connected relay passes candidates on.
    private var isOpen = false

    init(own: EndpointID, control: any ControlSending, nearby: NearbyNetwork) {
        (self.control, self.nearby) = (control, nearby)
        exchange = CandidateExchange(own: own)
    }

    func connected(_ welcome: RelayMessage.Welcome) { setOpen(welcome.features.contains(ControlFeatures.candidates)) }

    func disconnected() { setOpen(false) }

    private func setOpen(_ isOpen: Bool) {
        self.isOpen = isOpen
        nearby.isToldAddresses = isOpen
    }

    /// This endpoint is a side of a tunnel, and the other side has heard of it.
    func began(_ tunnel: TunnelID, with peer: EndpointID) {
        exchange.began(tunnel, with: peer)
        tell(in: tunnel)
    }

    func ended(_ tunnel: TunnelID) { exchange.ended(tunnel) }

    /// This endpoint listens at another place.
    func moved() { tell(in: nil) }

    private func tell(in tunnel: TunnelID?) {
        guard isOpen, let candidates = nearby.ownCandidates else { return }
        for text in exchange.tell(candidates, in: tunnel, keys: nearby.keys) { control.say(.tunnelCandidates(text)) }
    }

    func received(_ text: TunnelCandidates) {
        guard isOpen, let heard = exchange.heard(text, keys: nearby.keys) else { return }
        nearby.told(heard.candidates, by: heard.peer)
    }
}
