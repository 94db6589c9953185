// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// Launching on a device or an app, and messages to the services of this sample.
final class TargetViewController: FormViewController {
    private let launching: Launching
    private let service: ServiceConnection

    init(_ launching: Launching, _ service: ServiceConnection) {
        (self.launching, self.service) = (launching, service)
        super.init(nibName: nil, bundle: nil)
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        title = launching.target.name
        addLaunch()
        if service.target.hasServices { addService() }
    }

    private func addLaunch() {
        let (launching, work) = (launching, work)
        addLabel(.headline).text = "Launch on \(launching.target.deviceName)"
        addField("Address to launch", { launching.uri }, { launching.uri = $0 })
        addField("Fallback address", { launching.fallback }, { launching.fallback = $0 })
        addButton("Launch") { work.run("launch") { await launching.launch() } }
        addNotice { launching.notice }
        let cancel = addButton("Cancel the launch") { work.run("cancel") { await launching.cancel() } }
        observe { cancel.isHidden = !launching.isRunning }
    }

    private func addService() {
        let (service, work) = (service, work)
        addLabel(.headline).text = "App service"
        addNotice { service.state }
        let connect = addButton("Connect") { work.run("connect") { await service.connect() } }
        let ping = addButton("Send a ping") { work.run("ping") { await service.ping() } }
        let disconnect = addButton("Disconnect") { service.disconnect() }
        addField("Text of the message", { service.text }, { service.text = $0 })
        addButton("Send a message that waits") { work.run("message") { await service.sendText() } }
        addNotice { service.answer }
        observe {
            connect.isHidden = service.isConnected
            ping.isHidden = !service.isConnected
            disconnect.isHidden = !service.isConnected
        }
    }
}
#endif
