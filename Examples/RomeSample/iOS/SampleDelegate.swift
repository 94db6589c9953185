// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import DeviceRelay
import UIKit
import UserNotifications

/// Hands the events of the system to the model: the push token, push notifications, background and foreground.
@MainActor class SampleDelegate: UIResponder, UIApplicationDelegate {
    let sample = RomeSample(.phone)
    private var count = 0

    /// A token works in its own environment only: that of a build that Xcode installed, or that of TestFlight and the App Store.
    private static let isSandbox: Bool = {
        #if DEBUG
        true
        #else
        false
        #endif
    }()

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]? = nil
    ) -> Bool {
        let center = NotificationCenter.default
        center.addObserver(self, selector: #selector(wentToBackground), name: UIApplication.didEnterBackgroundNotification, object: nil)
        center.addObserver(self, selector: #selector(cameToFront), name: UIApplication.willEnterForegroundNotification, object: nil)
        sample.work.run("start") { [sample] in await sample.start() }
        sample.work.run("alerts") { [sample] in
            let allowed = try? await UNUserNotificationCenter.current().requestAuthorization(options: [.alert, .sound])
            sample.push.alertsDecided(allowed ?? false)
        }
        application.registerForRemoteNotifications()
        return true
    }

    func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data) {
        sample.work.run("push token") { [sample] in await sample.tokenArrived(deviceToken, isSandbox: Self.isSandbox) }
    }

    func application(_ application: UIApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error) {
        sample.push.tokenFailed()
    }

    func application(
        _ application: UIApplication,
        didReceiveRemoteNotification userInfo: [AnyHashable: Any],
        fetchCompletionHandler completionHandler: @escaping (UIBackgroundFetchResult) -> Void
    ) {
        let notification = ConnectedDevicesNotification(parsing: userInfo)
        // Each notification has a task of its own: the system waits for each answer.
        count += 1
        sample.work.run("notification \(count)") { [sample] in
            completionHandler(await sample.received(notification) ? .newData : .noData)
        }
    }

    @objc private func wentToBackground() {
        let application = UIApplication.shared
        // Time for the last message to the relay. At its end the system suspends the app in any case.
        let time = application.beginBackgroundTask()
        sample.work.run("suspend") { [sample] in
            await sample.suspend()
            application.endBackgroundTask(time)
        }
    }

    @objc private func cameToFront() { sample.work.run("resume") { [sample] in await sample.resume() } }
}
#endif
