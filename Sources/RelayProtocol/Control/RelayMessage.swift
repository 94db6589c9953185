// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// A message from a relay to an endpoint. Indirect, since a copy of it for each step of its way would cost more than the allocation.
package indirect enum RelayMessage: Hashable, Sendable {
    case challenge(Challenge)
    case welcome(Welcome)
    case rejected(Rejected)
    case ok(OK)
    case failure(Failure)
    case endpointAdded(EndpointAdded)
    case endpointUpdated(EndpointUpdated)
    case endpointRemoved(EndpointRemoved)
    case enumerationCompleted(EnumerationCompleted)
    case notificationsState(NotificationsState)
    case identityChanged(IdentityChanged)
    case command(Command)
    case commandCancel(CommandCancel)
    case commandSettled(CommandSettled)
    case commandStatus(CommandStatus)
    case tunnelOffer(TunnelOffer)
    case tunnelReady(TunnelReady)
    case tunnelFailed(TunnelFailed)
    case tunnelCandidates(TunnelCandidates)
    case authExpiring(AuthExpiring)
    case authInvalidated(AuthInvalidated)
    case replaced(Replaced)
    case restarting(Restarting)

    /// The message in the case.
    package var content: any ControlMessage {
        switch self {
        case .challenge(let message): message
        case .welcome(let message): message
        case .rejected(let message): message
        case .ok(let message): message
        case .failure(let message): message
        case .endpointAdded(let message): message
        case .endpointUpdated(let message): message
        case .endpointRemoved(let message): message
        case .enumerationCompleted(let message): message
        case .notificationsState(let message): message
        case .identityChanged(let message): message
        case .command(let message): message
        case .commandCancel(let message): message
        case .commandSettled(let message): message
        case .commandStatus(let message): message
        case .tunnelOffer(let message): message
        case .tunnelReady(let message): message
        case .tunnelFailed(let message): message
        case .tunnelCandidates(let message): message
        case .authExpiring(let message): message
        case .authInvalidated(let message): message
        case .replaced(let message): message
        case .restarting(let message): message
        }
    }

    /// The request that this answers, for `ok`, `error` and `command.settled`.
    package var ref: RequestRef? { (content as? any NumberedControlMessage)?.ref }

    /// `nil` for an unknown type.
    private init?(type: String, json: JSONValue) throws(JSONError) {
        switch type {
        case Challenge.type: self = .challenge(try Challenge(json: json))
        case Welcome.type: self = .welcome(try Welcome(json: json))
        case Rejected.type: self = .rejected(try Rejected(json: json))
        case OK.type: self = .ok(try OK(json: json))
        case Failure.type: self = .failure(try Failure(json: json))
        case EndpointAdded.type: self = .endpointAdded(try EndpointAdded(json: json))
        case EndpointUpdated.type: self = .endpointUpdated(try EndpointUpdated(json: json))
        case EndpointRemoved.type: self = .endpointRemoved(try EndpointRemoved(json: json))
        case EnumerationCompleted.type: self = .enumerationCompleted(try EnumerationCompleted(json: json))
        case NotificationsState.type: self = .notificationsState(try NotificationsState(json: json))
        case IdentityChanged.type: self = .identityChanged(try IdentityChanged(json: json))
        case Command.type: self = .command(try Command(json: json))
        case CommandCancel.type: self = .commandCancel(try CommandCancel(json: json))
        case CommandSettled.type: self = .commandSettled(try CommandSettled(json: json))
        case CommandStatus.type: self = .commandStatus(try CommandStatus(json: json))
        case TunnelOffer.type: self = .tunnelOffer(try TunnelOffer(json: json))
        case TunnelReady.type: self = .tunnelReady(try TunnelReady(json: json))
        case TunnelFailed.type: self = .tunnelFailed(try TunnelFailed(json: json))
        case TunnelCandidates.type: self = .tunnelCandidates(try TunnelCandidates(json: json))
        case AuthExpiring.type: self = .authExpiring(try AuthExpiring(json: json))
        case AuthInvalidated.type: self = .authInvalidated(try AuthInvalidated(json: json))
        case Replaced.type: self = .replaced(try Replaced(json: json))
        case Restarting.type: self = .restarting(try Restarting(json: json))
        default: return nil
        }
    }
}

extension RelayMessage {
    /// Reads a frame; `nil` for a message of an unknown type, which the endpoint ignores.
    /// - Parameter isWelcome: whether `welcome` has arrived. For frames up to and including `welcome` the limit is lower.
    package static func decode(
        from frame: ByteBuffer,
        limits: Limits,
        isWelcome: Bool = true
    ) throws(ControlFrameError) -> RelayMessage? {
        let json = try ControlFrame.json(of: frame, limits: limits, isWelcome: isWelcome)
        do throws(JSONError) {
            return try RelayMessage(type: try json.member("type"), json: json)
        } catch {
            throw ControlFrameError(error)
        }
    }

    /// The message as a frame.
    package func encode(limits: Limits = Limits()) throws(ControlFrameError) -> ByteBuffer { try content.frame(limits: limits) }
}
